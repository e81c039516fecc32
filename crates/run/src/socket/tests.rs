use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use nicforge_ir::{
    Entry, Match, Program, Span, Table, TableBackend, TableError, TableId, TableKind, Type,
};
use serde_json::{Value, json};

use super::*;

/// A program of one table with byte keys and values.
struct Target {
    program: Program,
    entries: Memory,
    stopped: bool,
}

struct Memory(BTreeMap<Vec<u8>, Entry>);

impl TableBackend for Memory {
    fn get(&self, _: TableId, key: &[u8], _: &Match) -> Result<Option<Entry>, TableError> {
        Ok(self.0.get(key).cloned())
    }
    fn set(&mut self, _: TableId, entry: &Entry) -> Result<(), TableError> {
        self.0.insert(entry.key.clone(), entry.clone());
        Ok(())
    }
    fn delete(&mut self, _: TableId, key: &[u8], _: &Match) -> Result<bool, TableError> {
        Ok(self.0.remove(key).is_some())
    }
    fn dump(&self, _: TableId) -> Result<Vec<Entry>, TableError> {
        Ok(self.0.values().cloned().collect())
    }
}

impl ControlTarget for Target {
    fn parts(&mut self) -> (&Program, &mut dyn TableBackend) {
        (&self.program, &mut self.entries)
    }
    fn metrics(&mut self) -> Value {
        json!({ "packets": 3 })
    }
    fn stop(&mut self) {
        self.stopped = true;
    }
}

fn target() -> Target {
    let mut program = Program::new("t");
    let (name, span) = ("bytes".to_string(), Span::default());
    let (kind, key, value) = (TableKind::Hash, Type::U8, Type::U8);
    program.tables.push(Table {
        name,
        kind,
        key,
        key_big_endian: false,
        value,
        capacity: 9,
        buf: None,
        max_replicas: None,
        by_number: false,
        shared: false,
        span,
    });
    Target { program, entries: Memory(BTreeMap::new()), stopped: false }
}

/// Runs a server until it is stopped, while `ask` talks to it.
fn serve(ask: impl FnOnce(&std::path::Path) + Send) -> Target {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start_in(dir.path(), "my prog.c").unwrap();
    let path = server.path().to_path_buf();
    assert!(path.file_name().unwrap().to_str().unwrap().starts_with("my_prog_c."));
    let mut target = target();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            ask(&path);
            request(&path, &Request::Stop).unwrap();
        });
        while !target.stopped && !asking.is_finished() {
            server.poll(&mut target);
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        server.finish();
        asking.join().unwrap();
    });
    drop(server);
    assert!(!path.exists(), "the name goes with the server");
    target
}

#[test]
fn half_a_request_holds_nobody_up_and_its_rest_may_come_late() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    let dir = tempfile::tempdir().unwrap();
    let mut lines = super::Lines::bind(dir.path().join("socket")).unwrap();
    let connect = || UnixStream::connect(lines.path()).unwrap();
    let (mut late, mut other) = (connect(), connect());
    let mut poll = || lines.poll(|line| [line, b"!\n"].concat());
    late.write_all(b"half ").unwrap();
    other.write_all(b"one\ntwo\n").unwrap();
    poll();
    let mut answers = [0; 10];
    other.read_exact(&mut answers).unwrap();
    assert_eq!(&answers, b"one!\ntwo!\n");
    late.write_all(b"and half\n").unwrap();
    late.shutdown(std::net::Shutdown::Write).unwrap();
    poll();
    poll();
    let mut answer = String::new();
    late.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "half and half!\n");
}

#[test]
fn idle_connections_do_not_keep_others_out() {
    serve(|path| {
        let idle: Vec<_> =
            (0..40).filter_map(|_| std::os::unix::net::UnixStream::connect(path).ok()).collect();
        assert!(idle.len() > 16);
        for _ in 0..3 {
            let set = json!({"op": "set", "table": "bytes", "entry": {"key": 1, "value": 11}});
            assert_eq!(request(path, &serde_json::from_value(set).unwrap()).unwrap(), json!(true));
        }
    });
}

#[test]
fn every_request() {
    let target = serve(|path| {
        let ask =
            |request_: &Value| request(path, &serde_json::from_value(request_.clone()).unwrap());
        let set = |key, value| {
            ask(&json!({"op": "set", "table": "bytes", "entry": {"key": key, "value": value}}))
        };
        assert_eq!(set(1, 11).unwrap(), json!(true));
        assert_eq!(set(2, 22).unwrap(), json!(true));
        let get =
            |key| ask(&json!({"op": "get", "table": "bytes", "entry": {"key": key}})).unwrap();
        assert_eq!(get(2), json!({"key": 2, "value": 22}));
        assert_eq!(get(3), Value::Null);
        let delete =
            || ask(&json!({"op": "delete", "table": "bytes", "entry": {"key": 2}})).unwrap();
        assert_eq!((delete(), delete()), (json!(true), json!(false)));
        assert_eq!(
            ask(&json!({"op": "dump"})).unwrap(),
            json!({"bytes": [{"key": 1, "value": 11}]})
        );
        assert_eq!(
            ask(&json!({"op": "dump", "table": "bytes"})).unwrap(),
            json!([{"key": 1, "value": 11}])
        );
        assert_eq!(ask(&json!({"op": "metrics"})).unwrap(), json!({"packets": 3}));
        let list = ask(&json!({"op": "list"})).unwrap();
        assert_eq!(
            (&list[0]["table"], &list[0]["kind"], &list[0]["key"]),
            (&json!("bytes"), &json!("hash"), &json!("u8"))
        );
        let error = set(1, 256).unwrap_err().to_string();
        assert_eq!(error, "the run answered: `value`: 256 is not between 0 and 255");
        let error = ask(&json!({"op": "dump", "table": "none"})).unwrap_err().to_string();
        assert!(error.contains("no table `none`; it has `bytes`"), "{error}");
    });
    assert_eq!(target.entries.0.len(), 1);
}

#[test]
fn bad_clients_do_no_harm() {
    serve(|path| {
        let mut stream = UnixStream::connect(path).unwrap();
        stream
            .write_all(b"nonsense\n{\"op\":\"explode\"}\n\xff\xff\n{\"op\":\"metrics\"}\n{\"op\":")
            .unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut replies = String::new();
        stream.read_to_string(&mut replies).unwrap();
        let replies: Vec<&str> = replies.lines().collect();
        assert_eq!(replies.len(), 4);
        assert!(
            replies[..3].iter().all(|reply| reply.starts_with("{\"error\":\"not a request:")),
            "{replies:?}"
        );
        assert_eq!(replies[3], "{\"ok\":{\"packets\":3}}");

        let mut endless = UnixStream::connect(path).unwrap();
        let refused = (0..2000).any(|_| endless.write_all(&[b'x'; 4096]).is_err());
        assert!(refused, "a request without end is cut off");
    });
}

#[test]
fn runs_are_found_and_dead_ones_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(client::list_in(dir.path()).unwrap(), []);
    let first = Server::start_in(dir.path(), "a").unwrap();
    let second = Server::start_in(dir.path(), "a").unwrap();
    let dead = dir.path().join("gone.1.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    std::fs::write(dir.path().join("readme"), "not a run").unwrap();

    let runs = client::list_in(dir.path()).unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run.program.as_str()).collect();
    assert_eq!(names, ["a", "a-1"]);
    assert!(!dead.exists());
    let pid = std::process::id();
    assert_eq!(runs[0], RunningRun { program: "a".into(), pid, path: first.path().into() });

    assert!(matches!(client::pick(runs.clone(), None), Err(SocketError::Several(_))));
    assert!(matches!(client::pick(vec![], None), Err(SocketError::NoRun)));
    assert_eq!(client::pick(runs[..1].to_vec(), None).unwrap(), runs[0]);
    assert_eq!(client::pick(runs.clone(), Some(pid)).unwrap(), runs[0]);
    let error = client::pick(runs, Some(1)).unwrap_err().to_string();
    assert_eq!(error, format!("no program runs as process 1; running: {pid} (a), {pid} (a-1)"));
    drop((first, second));
}

#[test]
fn directories_of_others_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    // SAFETY: no arguments.
    let user = unsafe { libc::geteuid() };
    let own = dir.path().join("own");
    assert_eq!(own_directory(own.clone(), user).unwrap(), own);
    assert_eq!(own_directory(own.clone(), user).unwrap(), own, "the second time too");
    assert!(matches!(own_directory(own.clone(), user + 1), Err(SocketError::Unsafe(_))));
    std::os::unix::fs::symlink(&own, dir.path().join("link")).unwrap();
    assert!(matches!(own_directory(dir.path().join("link"), user), Err(SocketError::Unsafe(_))));
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(own_directory(own, user), Err(SocketError::Unsafe(_))));
}
