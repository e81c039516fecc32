//! The driver as a Python module, `nicforge._native`: programs, plans, simulations, comparisons and
//! builds as typed objects. python/nicforge/_native.pyi says what there is.

mod compared;
mod plan;
mod program;
mod support;
mod value;
mod work;

use nicforge_driver::targets;
use pyo3::prelude::*;

use work::{Error, raised};

/// Names of the targets that come with Nicforge.
#[pyfunction]
#[pyo3(name = "targets")]
fn targets_known() -> Vec<&'static str> {
    nicforge_target::names()
}

/// A target's units, memories, ports, events and accelerators.
#[pyfunction]
fn target<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let found = targets::find(name).map_err(|failure| raised(py, failure))?;
    value::to_python(py, &targets::json(&found))
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("Error", module.py().get_type::<Error>())?;
    module.add_class::<compared::Comparison>()?;
    module.add_class::<plan::Guarantee>()?;
    module.add_class::<plan::Memory>()?;
    module.add_class::<plan::Plan>()?;
    module.add_class::<plan::Simulation>()?;
    module.add_class::<plan::Stage>()?;
    module.add_class::<program::Output>()?;
    module.add_class::<program::Program>()?;
    module.add_class::<program::Run>()?;
    module.add_class::<program::Table>()?;
    module.add_class::<support::Construct>()?;
    module.add_class::<support::Support>()?;
    module.add_function(wrap_pyfunction!(targets_known, module)?)?;
    module.add_function(wrap_pyfunction!(target, module)?)?;
    module.add_function(wrap_pyfunction!(program::diagnose, module)?)?;
    module.add_function(wrap_pyfunction!(program::opaque, module)?)?;
    Ok(())
}
