//! What the front end says to users: the table of codes and the rendering.

pub mod codes;
pub mod render;
