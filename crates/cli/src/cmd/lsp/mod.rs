//! `nicforge lsp`: a language server for programs in C, on standard input and output (Language
//! Server Protocol 3.17).
//!
//! What is typed is compiled as it stands, and its problems are shown. What is saved is analysed
//! for the slowest path that a packet can take on each target, in a thread of its own: requests for
//! costs wait for it, everything else is answered meanwhile.

mod costs;
mod document;

use std::collections::HashMap;
use std::io::IsTerminal;
use std::panic::catch_unwind;

use crossbeam_channel::{Receiver, Sender, select, unbounded};
use lsp_server::{Connection, ErrorCode, Message, Notification, Request, RequestId, Response};
use lsp_types::notification::{
    DidChangeTextDocument, DidCloseTextDocument, DidOpenTextDocument, DidSaveTextDocument,
    Notification as _, PublishDiagnostics,
};
use lsp_types::request::{
    CodeLensRefresh, CodeLensRequest, HoverRequest, InlayHintRefreshRequest, InlayHintRequest,
    Request as _,
};
use lsp_types::{
    CodeLensOptions, CodeLensParams, DidChangeTextDocumentParams, DidCloseTextDocumentParams,
    DidOpenTextDocumentParams, DidSaveTextDocumentParams, HoverParams, HoverProviderCapability,
    InitializeParams, InlayHintParams, OneOf, PublishDiagnosticsParams, ServerCapabilities,
    TextDocumentSyncCapability, TextDocumentSyncKind, TextDocumentSyncOptions,
    TextDocumentSyncSaveOptions, Url,
};
use nicforge_driver::{Failure, targets};
use nicforge_target::Target;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::args::Lsp;
use costs::Costs;
use document::Document;

/// Serves an editor until it says that it is done.
///
/// # Errors
/// A target that is not known, or an editor that does not keep to the protocol.
pub fn run(args: Lsp) -> Result<(), Failure> {
    let named = |name: &String| Ok((name.clone(), targets::find(name)?));
    let targets = args.target.iter().map(named).collect::<Result<_, Failure>>()?;
    if std::io::stdin().is_terminal() {
        errln!("editors start this command and speak with it (docs/start.md); Ctrl-C ends it");
    }
    let (connection, threads) = Connection::stdio();
    let ended = serve(connection, targets);
    // The threads of standard input and output have ended, as nobody holds the connection now.
    threads.join().map_err(|e| {
        Failure::user(format!("what came is not of the language server protocol: {e}"))
    })?;
    match ended? {
        true => Ok(()),
        false => Err(Failure::user("the editor is gone without a word")),
    }
}

/// Serves from the first message to the last; false if the editor is gone without a word.
fn serve(connection: Connection, targets: Vec<(String, Target)>) -> Result<bool, Failure> {
    let capabilities = serde_json::to_value(capabilities()).unwrap_or_default();
    let asked = match connection.initialize(capabilities) {
        Ok(asked) => asked,
        Err(error) if error.channel_is_disconnected() => return Ok(false),
        Err(error) => return Err(broken(error)),
    };
    let asked: InitializeParams = serde_json::from_value(asked).unwrap_or_default();
    let client = asked.capabilities.workspace.unwrap_or_default();
    let refreshes = client.code_lens.and_then(|lens| lens.refresh_support).unwrap_or(false)
        && client.inlay_hint.and_then(|hint| hint.refresh_support).unwrap_or(false);
    let (done, finished) = unbounded();
    let mut server = Server {
        connection,
        targets,
        refreshes,
        requests: 0,
        documents: HashMap::new(),
        done,
        analyses: 0,
    };
    server.serve(&finished)
}

fn broken(error: lsp_server::ProtocolError) -> Failure {
    Failure::user(format!("the editor does not keep to the protocol: {error}"))
}

fn capabilities() -> ServerCapabilities {
    let sync = TextDocumentSyncOptions {
        open_close: Some(true),
        change: Some(TextDocumentSyncKind::FULL),
        save: Some(TextDocumentSyncSaveOptions::Supported(true)),
        ..TextDocumentSyncOptions::default()
    };
    ServerCapabilities {
        text_document_sync: Some(TextDocumentSyncCapability::Options(sync)),
        code_lens_provider: Some(CodeLensOptions { resolve_provider: Some(false) }),
        inlay_hint_provider: Some(OneOf::Left(true)),
        hover_provider: Some(HoverProviderCapability::Simple(true)),
        ..ServerCapabilities::default()
    }
}

/// An analysis that is over: of which document, its number, and what it found.
type Finished = (Url, u64, Costs);

struct Server {
    connection: Connection,
    /// What the command line calls each, and what it is.
    targets: Vec<(String, Target)>,
    /// The editor asks again when it is told that costs are others.
    refreshes: bool,
    /// Requests to the editor so far.
    requests: i32,
    documents: HashMap<Url, Document>,
    done: Sender<Finished>,
    /// Analyses so far; each has its number.
    analyses: u64,
}

impl Server {
    /// Serves until the editor says that it is done; false if it is gone without a word.
    fn serve(&mut self, finished: &Receiver<Finished>) -> Result<bool, Failure> {
        let incoming = self.connection.receiver.clone();
        loop {
            select! {
                recv(incoming) -> message => match message {
                    Err(_) => return Ok(false),
                    Ok(Message::Request(request)) => {
                        if self.connection.handle_shutdown(&request).map_err(broken)? {
                            return Ok(true);
                        }
                        self.request(request);
                    }
                    Ok(Message::Notification(notification)) => self.notification(notification),
                    Ok(Message::Response(_)) => {}
                },
                recv(finished) -> found => {
                    if let Ok(found) = found {
                        self.finish(found);
                    }
                }
            }
            // A person types faster than a program compiles: only what stands now counts.
            if incoming.is_empty() {
                self.compile();
            }
        }
    }

    fn send(&self, message: impl Into<Message>) {
        // An editor that is gone is noticed where it is listened to.
        let _ = self.connection.sender.send(message.into());
    }

    fn request(&mut self, request: Request) {
        let Request { id, method, params } = request;
        let answer = match method.as_str() {
            CodeLensRequest::METHOD => match read::<CodeLensParams>(params) {
                Some(params) => return self.costs(id, &params.text_document.uri, lenses),
                None => None,
            },
            InlayHintRequest::METHOD => match read::<InlayHintParams>(params) {
                Some(params) => return self.costs(id, &params.text_document.uri, hints),
                None => None,
            },
            HoverRequest::METHOD => read::<HoverParams>(params).map(|params| {
                let at = params.text_document_position_params;
                let document = self.documents.get(&at.text_document.uri);
                let hover = document.and_then(|document| document.explanation(at.position));
                serde_json::to_value(hover).unwrap_or_default()
            }),
            _ => {
                let what = format!("there is no method `{method}`");
                return self.send(Response::new_err(id, ErrorCode::MethodNotFound as i32, what));
            }
        };
        self.send(match answer {
            Some(answer) => Response::new_ok(id, answer),
            None => {
                let what = format!("`{method}` has other parameters");
                Response::new_err(id, ErrorCode::InvalidParams as i32, what)
            }
        });
    }

    /// Answers from the costs of a document, once they are known.
    fn costs(&mut self, id: RequestId, document: &Url, part: Part) {
        match self.documents.get_mut(document) {
            Some(document) if document.analysis.is_some() => document.waiting.push((id, part)),
            Some(document) => {
                let answer = part(&document.costs);
                self.send(Response::new_ok(id, answer));
            }
            None => self.send(Response::new_ok(id, Value::Null)),
        }
    }

    fn notification(&mut self, notification: Notification) {
        let Notification { method, params } = notification;
        match method.as_str() {
            DidOpenTextDocument::METHOD => {
                if let Some(DidOpenTextDocumentParams { text_document: opened }) = read(params) {
                    let document = Document::new(&opened.uri, opened.text, opened.version);
                    self.documents.insert(opened.uri.clone(), document);
                    self.analyse(&opened.uri);
                }
            }
            DidChangeTextDocument::METHOD => {
                if let Some(DidChangeTextDocumentParams { text_document, content_changes }) =
                    read(params)
                    && let Some(document) = self.documents.get_mut(&text_document.uri)
                    && let Some(change) = content_changes.into_iter().next_back()
                {
                    document.change(change.text, text_document.version);
                }
            }
            DidSaveTextDocument::METHOD => {
                if let Some(DidSaveTextDocumentParams { text_document, .. }) = read(params) {
                    self.analyse(&text_document.uri);
                }
            }
            DidCloseTextDocument::METHOD => {
                if let Some(DidCloseTextDocumentParams { text_document: closed }) = read(params)
                    && let Some(document) = self.documents.remove(&closed.uri)
                {
                    for (id, part) in document.waiting {
                        self.send(Response::new_ok(id, part(&Costs::default())));
                    }
                    self.publish(closed.uri, Vec::new(), None);
                }
            }
            _ => {}
        }
    }

    /// Compiles what changed and shows its problems.
    fn compile(&mut self) {
        let changed: Vec<Url> = self
            .documents
            .iter()
            .filter(|(_, document)| document.changed)
            .map(|(uri, _)| uri.clone())
            .collect();
        for uri in changed {
            if let Some(document) = self.documents.get_mut(&uri) {
                document.compile(&uri);
                self.show(&uri);
            }
        }
    }

    /// Shows the problems of a document.
    fn show(&self, uri: &Url) {
        let Some(document) = self.documents.get(uri) else { return };
        self.publish(uri.clone(), document.problems(), Some(document.version));
    }

    fn publish(&self, uri: Url, diagnostics: Vec<lsp_types::Diagnostic>, version: Option<i32>) {
        let params = PublishDiagnosticsParams { uri, diagnostics, version };
        self.send(Notification::new(PublishDiagnostics::METHOD.to_string(), params));
    }

    /// Starts the analysis of a document as it lies on the disk.
    fn analyse(&mut self, uri: &Url) {
        let Some(document) = self.documents.get_mut(uri) else { return };
        self.analyses += 1;
        document.analysis = Some(self.analyses);
        let (path, targets) = (document.path.clone(), self.targets.clone());
        let (uri, number, done) = (uri.clone(), self.analyses, self.done.clone());
        std::thread::spawn(move || {
            // Whoever waits gets an answer, whatever happens.
            let costs = catch_unwind(|| costs::of(&path, &targets)).unwrap_or_default();
            // Nobody waits if the server has ended.
            let _ = done.send((uri, number, costs));
        });
    }

    /// Takes what an analysis found, unless a later one is under way.
    fn finish(&mut self, (uri, number, costs): Finished) {
        let Some(document) = self.documents.get_mut(&uri) else { return };
        if document.analysis != Some(number) {
            return;
        }
        document.analysis = None;
        document.costs = costs;
        let waiting = std::mem::take(&mut document.waiting);
        let answers = waiting.into_iter().map(|(id, part)| (id, part(&document.costs)));
        for (id, answer) in answers.collect::<Vec<_>>() {
            self.send(Response::new_ok(id, answer));
        }
        self.show(&uri);
        if self.refreshes {
            for method in [CodeLensRefresh::METHOD, InlayHintRefreshRequest::METHOD] {
                self.requests += 1;
                self.send(Request::new(self.requests.into(), method.to_string(), Value::Null));
            }
        }
    }
}

/// Chooses what of the costs a request asks for.
type Part = fn(&Costs) -> Value;

fn lenses(costs: &Costs) -> Value {
    serde_json::to_value(&costs.lenses).unwrap_or_default()
}

fn hints(costs: &Costs) -> Value {
    serde_json::to_value(&costs.hints).unwrap_or_default()
}

fn read<P: DeserializeOwned>(params: Value) -> Option<P> {
    serde_json::from_value(params).ok()
}
