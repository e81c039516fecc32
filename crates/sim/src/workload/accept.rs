//! Which frames of a capture a program takes, and how they may be rewritten.
//!
//! A capture that goes with a program shows what the program is about, refusals included; a
//! workload wants the usual. So the capture is run through the interpreter, and frames that the
//! program drops or passes on to the operating system are left out, unless it does nothing else.
//! Then it is run again with the flows rewritten, and a conversation keeps the widest rewriting
//! under which its frames still meet the same fate; frames that do not (answers to a port that the
//! program itself chose) are left out too.

use nicforge_ir::{
    Entry, Input, InputEvent, Interp, Output, Program, TableBackend, TableId, Verified,
};

use super::frames::{Conversation, Rewrite, Templates, resize, rewrite};

/// Copies that are tried.
const COPIES: [u32; 3] = [1, 77, 4001];
/// Most frames of a capture that are used.
const MOST: usize = 4096;

/// Fates of a frame, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It went on, or was taken in, without being given up.
    Taken,
    GivenUp,
}

fn fate(outputs: &[Output]) -> Fate {
    let given_up = |o: &Output| matches!(o, Output::Drop { .. } | Output::Stack { .. });
    if outputs.iter().any(given_up) { Fate::GivenUp } else { Fate::Taken }
}

/// Templates for a program with its tables filled: conversations of a capture that it takes, at
/// frames of `bytes` (0: as they are). Plain frames, where nothing of the capture is taken.
pub fn accepted(
    program: &Verified<Program>,
    tables: &[(TableId, Entry)],
    events: &[InputEvent],
    bytes: u32,
    tcp: bool,
) -> Templates {
    let mut frames = Vec::new();
    let mut times = Vec::new();
    for event in events.iter().take(MOST) {
        if let Input::Net { port, frame } = &event.input {
            frames.push((*port, frame.clone()));
            times.push(event.time_ns);
        }
    }
    let templates = Templates::of_capture(&frames);
    let order = order(&templates, &frames);
    let size = |frame: &[u8]| if bytes == 0 { frame.to_vec() } else { resize(frame, bytes) };
    let run = |mode: Option<(Rewrite, u32)>| -> Vec<Fate> {
        let mut interp = Interp::new(program);
        for (table, entry) in tables {
            // What does not fit was refused before; here it only makes a frame meet another fate.
            let _ = interp.set(*table, entry);
        }
        let one = |n: usize| {
            let (conversation, place) = order[n];
            let conversation = &templates.conversations[conversation];
            let template = &conversation.frames[place];
            let mut frame = size(&template.frame);
            if let (Some((mode, copy)), true) = (mode, conversation.rewrite != Rewrite::Nothing) {
                rewrite(&mut frame, mode, template.answer, copy);
            }
            let input = Input::Net { port: template.port, frame };
            let event = InputEvent { time_ns: times[n], seed: n as u64, input };
            interp.run(&event).map_or(Fate::GivenUp, |outputs| fate(&outputs))
        };
        (0..frames.len()).map(one).collect()
    };
    let base = run(None);
    let taken = base.contains(&Fate::Taken);
    let wanted = |n: usize| !taken || base[n] == Fate::Taken;
    let of_mode = |mode| {
        let runs: Vec<Vec<Fate>> = COPIES.iter().map(|copy| run(Some((mode, *copy)))).collect();
        (0..frames.len())
            .map(|n| runs.iter().all(|fates| fates[n] == base[n]))
            .collect::<Vec<bool>>()
    };
    let modes = [(Rewrite::Both, of_mode(Rewrite::Both)), (Rewrite::Port, of_mode(Rewrite::Port))];
    let mut chosen = Vec::new();
    for (c, conversation) in templates.conversations.iter().enumerate() {
        let numbers: Vec<usize> =
            (0..order.len()).filter(|n| order[*n].0 == c && wanted(*n)).collect();
        if numbers.is_empty() {
            continue;
        }
        let fitting = modes.iter().find(|(_, same)| {
            let good = numbers.iter().filter(|n| same[**n]).count();
            // The frame that opens the conversation has to be among them.
            same[numbers[0]] && 2 * good >= numbers.len()
        });
        let (mode, keep): (Rewrite, Vec<usize>) = match fitting {
            Some((mode, same)) if conversation.rewrite != Rewrite::Nothing => {
                (*mode, numbers.into_iter().filter(|n| same[*n]).collect())
            }
            _ => (Rewrite::Nothing, numbers),
        };
        let frames = keep.iter().map(|n| conversation.frames[order[*n].1].clone()).collect();
        chosen.push(Conversation { frames, rewrite: mode });
    }
    // Conversations that cannot be rewritten are single flows; they are used only where there are
    // no others.
    let free = chosen.iter().any(|c| c.rewrite != Rewrite::Nothing);
    chosen.retain(|c| !free || c.rewrite != Rewrite::Nothing);
    if chosen.is_empty() { Templates::plain(tcp) } else { Templates { conversations: chosen } }
}

/// Conversation and place in it of every frame of the capture.
fn order(templates: &Templates, frames: &[(u32, Vec<u8>)]) -> Vec<(usize, usize)> {
    let mut next = vec![0; templates.conversations.len()];
    let mut order = Vec::with_capacity(frames.len());
    for (port, frame) in frames {
        let fits = |c: &usize| {
            let template = templates.conversations[*c].frames.get(next[*c]);
            template.is_some_and(|template| template.port == *port && &template.frame == frame)
        };
        // Conversations keep their frames' order, so the next one of some conversation is this
        // frame.
        let at = (0..next.len()).find(fits).unwrap_or(0);
        order.push((at, next[at]));
        next[at] += 1;
    }
    order
}
