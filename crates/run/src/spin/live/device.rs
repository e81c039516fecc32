//! The socket at which programs find the NIC: they load images, set rules, read and write NIC
//! memory, and get host memory that handlers reach. Requests and answers are those of
//! `runtime/spin/host/fpspin/device.h`; what arrives is not trusted.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nicforge_isa::object::riscv;
use nicforge_spin::matching::{Mode, Place, RULESETS, Rule, Ruleset, Test};

use super::{Happening, Live, Setup};
use crate::spin::{Lines, handlers_of, native_of};
use crate::unix::{ListenError, listen, pass};

const OPEN: u32 = 1;
const LOAD: u32 = 2;
const UNLOAD: u32 = 3;
const RULES: u32 = 4;
const WRITE: u32 = 5;
const READ: u32 = 6;
/// Bytes of a request's head, and the most that may follow it.
const HEAD: usize = 24;
const MOST: u64 = 64 << 20;
/// Host memory that a program may ask for.
const MOST_HOST: u64 = 1 << 30;
/// Bytes of a ruleset: four rules of four words, and the mode.
const RULESET: usize = 68;

/// The socket.
#[derive(Debug)]
pub struct Device {
    path: PathBuf,
    listener: UnixListener,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    /// What it has sent of requests that are not complete.
    buffer: Vec<u8>,
    /// Contexts that it opened, which end with it.
    contexts: Vec<usize>,
    gone: bool,
}

impl Device {
    /// Listens at a path.
    ///
    /// # Errors
    /// Those of [`listen`].
    pub fn new(path: &Path) -> Result<Device, ListenError> {
        let listener = listen(path)?;
        Ok(Device { path: path.to_path_buf(), listener, clients: Vec::new() })
    }

    /// Descriptors that become readable when there is something to do.
    pub fn fds(&self) -> impl Iterator<Item = RawFd> + '_ {
        std::iter::once(self.listener.as_raw_fd())
            .chain(self.clients.iter().map(|client| client.stream.as_raw_fd()))
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A request, whole.
struct Request {
    op: u32,
    context: usize,
    argument: u64,
    data: Vec<u8>,
}

/// An answer.
#[derive(Default)]
struct Answer {
    value: u64,
    data: Vec<u8>,
    passed: Option<OwnedFd>,
}

/// An errno and a message.
type Refusal = (i32, String);

impl Client {
    /// Reads what there is.
    fn fill(&mut self) {
        let mut piece = [0; 65_536];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => {
                    self.gone = true;
                    return;
                }
                Ok(length) => self.buffer.extend_from_slice(&piece[..length]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    self.gone |= e.kind() != ErrorKind::WouldBlock;
                    return;
                }
            }
            if self.buffer.len() as u64 > MOST + HEAD as u64 {
                return;
            }
        }
    }

    /// The next request, if all of it has come. A head that nobody's library sends ends the
    /// connection.
    fn next(&mut self) -> Option<Request> {
        let head = self.buffer.get(..HEAD)?;
        let word = |at: usize| u32::from_ne_bytes(head[at..at + 4].try_into().unwrap_or_default());
        let long = |at: usize| u64::from_ne_bytes(head[at..at + 8].try_into().unwrap_or_default());
        let (op, context, argument, size) = (word(0), word(4) as usize, long(8), long(16));
        if size > MOST {
            self.gone = true;
            return None;
        }
        let end = HEAD + size as usize;
        let data = self.buffer.get(HEAD..end)?.to_vec();
        self.buffer.drain(..end);
        Some(Request { op, context, argument, data })
    }

    /// Answers. The connection is not waited for longer than a moment: a library reads its answer
    /// at once.
    fn answer(&mut self, result: Result<Answer, Refusal>) {
        let (status, answer) = match result {
            Ok(answer) => (0, answer),
            Err((status, message)) => {
                (status, Answer { data: message.into_bytes(), ..Answer::default() })
            }
        };
        let mut bytes = Vec::with_capacity(HEAD + answer.data.len());
        bytes.extend((status as u32).to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(answer.value.to_ne_bytes());
        bytes.extend((answer.data.len() as u64).to_ne_bytes());
        bytes.extend(&answer.data);
        let sent = match answer.passed {
            Some(file) => pass(&self.stream, &bytes, &[&file]),
            None => Ok(0),
        };
        let rest = sent.and_then(|sent| {
            self.stream.set_nonblocking(false)?;
            self.stream.write_all(&bytes[sent..])?;
            self.stream.set_nonblocking(true)
        });
        self.gone |= rest.is_err();
    }
}

/// A ruleset as programs write it: rules on words in network order.
fn ruleset(bytes: &[u8]) -> Result<Option<Ruleset>, Refusal> {
    if bytes.is_empty() {
        return Ok(None);
    }
    if bytes.len() != RULESET {
        return Err((libc::EINVAL, format!("a ruleset has {RULESET} bytes, not {}", bytes.len())));
    }
    let word =
        |at: usize| u32::from_ne_bytes(bytes[at * 4..at * 4 + 4].try_into().unwrap_or_default());
    let rule = |at: usize| {
        let index = word(at * 4);
        match u8::try_from(index).ok().filter(|index| *index < 32) {
            Some(index) => Ok(Test::Word(Rule {
                word: index,
                mask: word(at * 4 + 1),
                start: word(at * 4 + 2),
                end: word(at * 4 + 3),
            })),
            None => Err((
                libc::EINVAL,
                format!("rule {at} is on word {index}; there are words 0 to 31"),
            )),
        }
    };
    Ok(Some(Ruleset {
        mode: if word(16) == 1 { Mode::Or } else { Mode::And },
        select: [rule(0)?, rule(1)?, rule(2)?],
        last: rule(3)?,
        message: Place::HARDWARE,
    }))
}

impl Live {
    /// Takes new programs, answers requests, and clears up behind programs that have ended.
    pub(super) fn serve_programs(&mut self, tell: &mut dyn FnMut(Happening)) {
        let Some(mut device) = self.device.take() else { return };
        while let Ok((stream, _)) = device.listener.accept() {
            if stream.set_nonblocking(true).is_ok() {
                let client =
                    Client { stream, buffer: Vec::new(), contexts: Vec::new(), gone: false };
                device.clients.push(client);
            }
        }
        for client in &mut device.clients {
            client.fill();
            while let Some(request) = client.next() {
                let result = self.request(client, &request, tell);
                client.answer(result);
            }
            if client.gone {
                for context in std::mem::take(&mut client.contexts) {
                    if self.setups[context].image.is_some() {
                        self.setups[context] = Setup::default();
                        // Without an image nothing can fail to be set up.
                        let _ = self.rebuild();
                        tell(Happening::Device(format!("context {context}: its program ended")));
                    }
                }
            }
        }
        device.clients.retain(|client| !client.gone);
        self.device = Some(device);
    }

    fn request(
        &mut self,
        client: &mut Client,
        request: &Request,
        tell: &mut dyn FnMut(Happening),
    ) -> Result<Answer, Refusal> {
        let context = request.context;
        let wrong = |message: String| Err((libc::EINVAL, message));
        if context >= RULESETS {
            return wrong(format!("context {context}: there are contexts 0 to {}", RULESETS - 1));
        }
        if self.setups.len() <= context {
            self.setups.resize(context + 1, Setup::default());
        }
        match request.op {
            OPEN => {
                if self.setups[context].image.is_some() && !client.contexts.contains(&context) {
                    return Err((
                        libc::EBUSY,
                        format!("context {context} has handlers of somebody else"),
                    ));
                }
                if request.argument > MOST_HOST {
                    return wrong(format!(
                        "{} bytes of host memory; {MOST_HOST} are the most",
                        request.argument
                    ));
                }
                self.setups[context] = Setup::default();
                let mut answer = Answer::default();
                if request.argument > 0 {
                    let file = self.share(context, request.argument as u32);
                    let file = file.map_err(|e| (libc::ENOMEM, format!("host memory: {e}")))?;
                    answer.passed = Some(file);
                    answer.value = self.setups[context].host.address;
                }
                if !client.contexts.contains(&context) {
                    client.contexts.push(context);
                }
                Ok(answer)
            }
            LOAD => self.load(context, &request.data, tell),
            UNLOAD => {
                let host = self.setups[context].host;
                self.setups[context] = Setup { host, ..Setup::default() };
                self.rebuild().map_err(|e| (libc::EINVAL, e.to_string()))?;
                Ok(Answer::default())
            }
            RULES => {
                self.setups[context].ruleset = ruleset(&request.data)?;
                if let Some(number) = self.numbers.get(context).copied().flatten() {
                    let set = self.nic.set_ruleset(number, self.setups[context].ruleset);
                    set.map_err(|e| (libc::EINVAL, e.to_string()))?;
                }
                Ok(Answer::default())
            }
            WRITE | READ => self.memory(client, request),
            op => wrong(format!("there is no request {op}")),
        }
    }

    fn load(
        &mut self,
        context: usize,
        elf: &[u8],
        tell: &mut dyn FnMut(Happening),
    ) -> Result<Answer, Refusal> {
        let wrong = |message: String| (libc::ENOEXEC, message);
        let (image, native) = match self.options.native {
            true => {
                let native = native_of(elf).map_err(|e| wrong(e.to_string()))?;
                (native.image.clone(), Some(native))
            }
            false => (riscv::parse(elf).map_err(|e| wrong(e.to_string()))?, None),
        };
        let lines = Lines::new(native.as_ref().map_or(elf, |native| &native.elf));
        let before = self.setups[context].clone();
        let handlers = handlers_of(&image);
        let named = [&handlers.header, &handlers.payload, &handlers.completion];
        let addresses = named.map(|name| {
            name.as_ref().and_then(|name| image.symbol(name)).map_or(0, |symbol| symbol.address)
        });
        let host_data = image.symbol("__host_data").map_or(0, |symbol| symbol.address);
        let names: Vec<&str> = named.iter().filter_map(|name| name.as_deref()).collect();
        let told = format!("context {context}: handlers {}", names.join(", "));
        self.setups[context] =
            Setup { image: Some(image), native, lines, handlers, ..before.clone() };
        if let Err(error) = self.rebuild() {
            self.setups[context] = before;
            let _ = self.rebuild();
            return Err(wrong(error.to_string()));
        }
        tell(Happening::Device(told));
        let number = self.numbers[context].unwrap_or_default();
        let memory = self.nic.handler_memory(number).map_err(|e| wrong(e.to_string()))?;
        let words = [
            host_data,
            addresses[0],
            addresses[1],
            addresses[2],
            memory.start,
            memory.end - memory.start,
        ];
        let data = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        Ok(Answer { data, ..Answer::default() })
    }

    /// NIC memory, as the program's first context sees it.
    fn memory(&mut self, client: &Client, request: &Request) -> Result<Answer, Refusal> {
        let number = client
            .contexts
            .first()
            .and_then(|context| self.numbers.get(*context).copied().flatten());
        let Some(number) = number else {
            return Err((
                libc::EPERM,
                "no handlers are loaded whose memory this could be".to_string(),
            ));
        };
        let fail = |e: nicforge_spin::nic::NicError| (libc::EFAULT, e.to_string());
        if request.op == WRITE {
            let address = u32::try_from(request.argument).map_err(|_| {
                (libc::EFAULT, format!("{:#x} is no NIC address", request.argument))
            })?;
            self.nic.write(number, address, &request.data).map_err(fail)?;
            return Ok(Answer::default());
        }
        let (address, bytes) = ((request.argument >> 32) as u32, request.argument as u32);
        let data = self.nic.read(number, address, bytes).map_err(fail)?.to_vec();
        Ok(Answer { data, ..Answer::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rulesets_are_read_as_the_library_writes_them() {
        // struct fpspin_rule r[4]; mode: fpspin_ruleset_slmp.
        let words: [u32; 17] = [
            3,
            0xffff_0000,
            0x0800_0000,
            0x0800_0000, //
            5,
            0xff,
            17,
            17, //
            9,
            0xffff_0000,
            9330 << 16,
            9330 << 16, //
            10,
            0x8000,
            0x8000,
            0x8000,
            0,
        ];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        assert_eq!(ruleset(&bytes), Ok(Some(Ruleset::SLMP)));
        assert_eq!(ruleset(&[]), Ok(None));
        bytes[16..20].copy_from_slice(&32u32.to_ne_bytes());
        assert!(ruleset(&bytes).unwrap_err().1.contains("rule 1 is on word 32"));
        assert!(ruleset(&bytes[1..]).is_err());
    }

    #[test]
    fn requests_are_put_together_from_pieces_and_wild_sizes_end_the_connection() {
        let (stream, mut other) = UnixStream::pair().unwrap();
        stream.set_nonblocking(true).unwrap();
        let mut client = Client { stream, buffer: Vec::new(), contexts: Vec::new(), gone: false };
        let mut bytes = Vec::new();
        bytes.extend(5u32.to_ne_bytes());
        bytes.extend(1u32.to_ne_bytes());
        bytes.extend(0x1c00_0000u64.to_ne_bytes());
        bytes.extend(3u64.to_ne_bytes());
        bytes.extend(b"abc");
        for byte in &bytes {
            assert!(client.next().is_none());
            other.write_all(&[*byte]).unwrap();
            client.fill();
        }
        let request = client.next().unwrap();
        assert_eq!((request.op, request.context, request.argument), (5, 1, 0x1c00_0000));
        assert_eq!((request.data.as_slice(), client.buffer.len()), (b"abc".as_slice(), 0));
        bytes[16..24].copy_from_slice(&u64::MAX.to_ne_bytes());
        other.write_all(&bytes).unwrap();
        client.fill();
        assert!(client.next().is_none() && client.gone);
    }

    /// Requests of any content get an answer or a refusal, also in the middle of an image's life.
    #[test]
    fn requests_made_of_anything_are_answered_or_refused() {
        let machine = nicforge_target::find("fpspin").unwrap();
        let machine = nicforge_spin::machine::Machine::from_target(&machine).unwrap();
        let mut live = Live::new(crate::spin::live::LiveOptions::on(machine)).unwrap();
        let (stream, _other) = UnixStream::pair().unwrap();
        let mut client = Client { stream, buffer: Vec::new(), contexts: Vec::new(), gone: false };
        let mut random = nicforge_util::Random::new(1);
        let mut draw = move |below: u64| random.below(below);
        let interesting =
            [0, 1, 4095, 4096, 0x1c00_0000, 0x1c00_0000 << 32 | 64, u64::MAX, 1 << 20];
        let (mut fine, mut refused) = (0, 0);
        for _ in 0..3000 {
            let size = [0, 0, 4, 68, 200][draw(5) as usize];
            let data = (0..size).map(|_| if draw(3) == 0 { draw(256) as u8 } else { 0 }).collect();
            let request = Request {
                op: draw(8) as u32,
                context: draw(6) as usize,
                argument: interesting[draw(8) as usize],
                data,
            };
            match live.request(&mut client, &request, &mut |_| {}) {
                Ok(_) => fine += 1,
                Err((_, message)) => {
                    refused += 1;
                    assert!(!message.is_empty());
                }
            }
        }
        assert!(fine > 300 && refused > 300, "{fine} {refused}");
    }
}
