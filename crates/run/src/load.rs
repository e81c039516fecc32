//! Requests over UDP, as fast as answers come or at a rate, and how long answers take: what profiles of functions are measured with.
//!
//! A datagram is a number of eight bytes, little endian, and a payload; the answer begins with the same number. One thread sends and
//! receives on one socket. What is not answered while the run lasts, or [`PATIENCE`] after, is lost and counted.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// How long answers are waited for when nothing comes any more.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// Requests that may be on their way at a time.
const FLYING_MOST: u64 = 1 << 16;

/// When the next request is sent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As soon as fewer than so many are unanswered.
    Window(u32),
    /// So many a second, evenly, whether answers come or not.
    Rate(f64),
}

/// What came of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    pub sent: u64,
    pub answered: u64,
    /// Requests that nothing came back for.
    pub lost: u64,
    /// From the first request to the last answer.
    pub seconds: f64,
    /// From sending a request to its answer, µs; of those answered.
    pub mean_us: f64,
    pub p50_us: f64,
    pub p99_us: f64,
}

impl Seen {
    /// Answers a second.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.answered as f64 / self.seconds } else { 0.0 }
    }
}

/// Offers `payloads`, over and over, for `time`.
///
/// # Errors
/// Those of the socket. A port nobody listens on is [`ErrorKind::ConnectionRefused`].
///
/// # Panics
/// Without payloads.
pub fn offer(
    to: SocketAddr,
    payloads: &[Vec<u8>],
    pace: Pace,
    time: Duration,
    interrupted: &dyn Fn() -> bool,
) -> io::Result<Seen> {
    let any: SocketAddr = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" }.parse().expect("an address");
    let socket = UdpSocket::bind(any)?;
    socket.connect(to)?;
    socket.set_nonblocking(true)?;
    let mut load = Load {
        socket,
        flying: vec![None; FLYING_MOST as usize],
        outstanding: 0,
        seen: Seen::default(),
        latencies: Vec::new(),
        last: Instant::now(),
    };
    let start = Instant::now();
    let mut datagram = Vec::new();
    while start.elapsed() < time && !interrupted() {
        let due = match pace {
            Pace::Window(window) => load.outstanding < u64::from(window),
            Pace::Rate(rate) => load.seen.sent as f64 <= start.elapsed().as_secs_f64() * rate,
        };
        if due {
            load.send(&payloads[(load.seen.sent % payloads.len() as u64) as usize], &mut datagram)?;
        }
        if !load.receive()? && !due {
            load.wait(pace, start)?;
        }
        if matches!(pace, Pace::Window(_)) && load.last.elapsed() > PATIENCE {
            load.give_up();
        }
    }
    load.last = Instant::now();
    while load.outstanding > 0 && load.last.elapsed() < PATIENCE && !interrupted() {
        if !load.receive()? {
            load.poll(Duration::from_millis(1))?;
        }
    }
    load.give_up();
    let seconds = start.elapsed().min(time).as_secs_f64();
    Ok(load.finish(seconds))
}

struct Load {
    socket: UdpSocket,
    /// When a request was sent, by its number modulo the length.
    flying: Vec<Option<(u64, Instant)>>,
    outstanding: u64,
    seen: Seen,
    /// Nanoseconds.
    latencies: Vec<u64>,
    /// When something was answered, or given up.
    last: Instant,
}

impl Load {
    fn send(&mut self, payload: &[u8], datagram: &mut Vec<u8>) -> io::Result<()> {
        let number = self.seen.sent;
        datagram.clear();
        datagram.extend_from_slice(&number.to_le_bytes());
        datagram.extend_from_slice(payload);
        let slot = (number % FLYING_MOST) as usize;
        if self.flying[slot].take().is_some() {
            self.outstanding -= 1;
            self.seen.lost += 1;
        }
        self.seen.sent += 1;
        // The answer may be there before the call returns.
        let sent = Instant::now();
        match self.socket.send(datagram) {
            Ok(_) => {
                self.flying[slot] = Some((number, sent));
                self.outstanding += 1;
                Ok(())
            }
            // A full queue of the interface is a place where packets are lost, like any other.
            Err(error)
                if error.kind() == ErrorKind::WouldBlock || error.raw_os_error() == Some(libc::ENOBUFS) =>
            {
                self.seen.lost += 1;
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Takes the answers that are there; whether there were any.
    fn receive(&mut self) -> io::Result<bool> {
        let mut answer = [0; 2048];
        let mut any = false;
        loop {
            match self.socket.recv(&mut answer) {
                Ok(size) if size >= 8 => {
                    let number = u64::from_le_bytes(answer[..8].try_into().expect("eight bytes"));
                    let slot = &mut self.flying[(number % FLYING_MOST) as usize];
                    if let Some((_, sent)) = slot.take_if(|(flying, _)| *flying == number) {
                        self.latencies.push(sent.elapsed().as_nanos() as u64);
                        self.outstanding -= 1;
                        self.seen.answered += 1;
                        self.last = Instant::now();
                    }
                    any = true;
                }
                Ok(_) => any = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(any),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits for an answer, or until the next request is due.
    fn wait(&self, pace: Pace, start: Instant) -> io::Result<()> {
        let pause = match pace {
            Pace::Window(_) => Duration::from_millis(10),
            Pace::Rate(rate) => Duration::from_secs_f64(self.seen.sent as f64 / rate)
                .saturating_sub(start.elapsed())
                .min(Duration::from_millis(10)),
        };
        self.poll(pause)
    }

    fn poll(&self, pause: Duration) -> io::Result<()> {
        let mut fd = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        let time = libc::timespec { tv_sec: 0, tv_nsec: pause.as_nanos().min(999_999_999) as i64 };
        // SAFETY: one pollfd and a time that both live through the call.
        let status = unsafe { libc::ppoll(&mut fd, 1, &time, std::ptr::null()) };
        let error = io::Error::last_os_error();
        if status < 0 && error.kind() != ErrorKind::Interrupted { Err(error) } else { Ok(()) }
    }

    fn give_up(&mut self) {
        self.seen.lost += self.outstanding;
        self.outstanding = 0;
        self.flying.fill(None);
        self.last = Instant::now();
    }

    fn finish(mut self, seconds: f64) -> Seen {
        self.latencies.sort_unstable();
        let count = self.latencies.len();
        let at = |share: f64| {
            self.latencies.get(((count as f64 * share) as usize).min(count.saturating_sub(1))).copied()
        };
        let us = |ns: Option<u64>| ns.map_or(0.0, |ns| ns as f64 / 1e3);
        self.seen.mean_us = self.latencies.iter().sum::<u64>() as f64 / count.max(1) as f64 / 1e3;
        (self.seen.p50_us, self.seen.p99_us, self.seen.seconds) = (us(at(0.5)), us(at(0.99)), seconds);
        self.seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// A service that answers what `answers` says, until the flag is set.
    fn serve(socket: &UdpSocket, done: &AtomicBool, answers: &impl Fn(u64) -> bool) {
        socket.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let mut request = [0; 2048];
        while !done.load(Ordering::Relaxed) {
            let Ok((size, from)) = socket.recv_from(&mut request) else { continue };
            let number = u64::from_le_bytes(request[..8].try_into().unwrap());
            if answers(number) {
                socket.send_to(&request[..size], from).unwrap();
            }
        }
    }

    fn against(answers: impl Fn(u64) -> bool + Send + Sync, pace: Pace) -> Seen {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (to, done) = (socket.local_addr().unwrap(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| serve(&socket, &done, &answers));
            let payloads = [vec![1; 20], vec![2; 1400]];
            let seen = offer(to, &payloads, pace, Duration::from_millis(300), &|| false);
            done.store(true, Ordering::Relaxed);
            seen.unwrap()
        })
    }

    #[test]
    fn every_request_is_answered_or_lost() {
        let seen = against(|number| number % 10 != 3, Pace::Rate(500.0));
        assert!(seen.sent > 20 && seen.lost >= seen.sent / 10, "{seen:?}");
        assert_eq!(seen.sent, seen.answered + seen.lost);
        assert!(seen.p50_us > 0.0 && seen.p50_us <= seen.p99_us, "{seen:?}");
    }

    #[test]
    fn a_window_goes_as_fast_as_answers_come() {
        let seen = against(|_| true, Pace::Window(4));
        assert!(seen.answered > 20 && seen.lost <= 4, "{seen:?}");
        assert!(seen.rate() > 0.0);
    }

    #[test]
    fn a_port_without_a_service_is_said() {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let error = offer(free, &[vec![0]], Pace::Window(1), Duration::from_secs(1), &|| false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    }
}
