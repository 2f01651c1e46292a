//! The network between the machines: one connection a lane, as TCP makes them.
//!
//! What travels by one stream arrives in order; single calls may overtake each other and may arrive
//! twice. A loss costs the time until it is sent again. A cut holds back what is on its way; after the
//! silence that the replica allows, the connection is lost and all its streams with it.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use firstclaim_replica::simulated::{Answering, Call, Lane, Process, Request, Response};
use http_body::{Body as _, Frame};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Bytes};

use crate::chance::Chance;
use crate::reach::{Mark, Reached};
use crate::trace::Trace;

/// How the network is in one run.
#[derive(Clone, Copy, Debug)]
pub struct Weather {
    /// The shortest way between two machines, in microseconds.
    pub delay_min: u64,
    /// The longest one, while nothing is lost.
    pub delay_max: u64,
    /// Messages in a thousand that are lost, and sent again.
    pub loss: u64,
    /// Single calls in a thousand that arrive twice.
    pub twice: u64,
    /// Calls in a thousand that end with their connection, before or after they arrive.
    pub reset: u64,
}

/// The network.
#[derive(Clone, Debug)]
pub struct Network {
    shared: Arc<Mutex<Shared>>,
    chance: Chance,
    trace: Trace,
    reached: Reached,
}

#[derive(Debug)]
struct Shared {
    weather: Weather,
    peers: BTreeMap<u64, Answering>,
    /// Machines that are off: they do not even refuse.
    dark: BTreeMap<u64, bool>,
    /// Directions that let nothing through.
    cuts: watch::Sender<Vec<(u64, u64)>>,
    slow: BTreeMap<u64, u64>,
    connections: BTreeMap<(u64, u64, Lane), Connection>,
    messages: u64,
}

/// A connection; lost once its sender is gone or says so.
#[derive(Clone, Debug)]
struct Connection(Arc<watch::Sender<bool>>);

impl Connection {
    fn new() -> Self {
        Self(Arc::new(watch::channel(false).0))
    }

    fn lose(&self) {
        self.0.send_replace(true);
    }

    fn is_lost(&self) -> bool {
        *self.0.borrow()
    }

    async fn lost(self) {
        let mut lost = self.0.subscribe();
        // The sender lives as long as `self`.
        drop(lost.wait_for(|lost| *lost).await);
    }
}

fn broken() -> Status {
    Status::unavailable("the connection is lost")
}

impl Network {
    /// A network without cuts.
    pub fn new(weather: Weather, chance: Chance, trace: Trace, reached: Reached) -> Self {
        let shared = Shared {
            weather,
            peers: BTreeMap::new(),
            dark: BTreeMap::new(),
            cuts: watch::channel(Vec::new()).0,
            slow: BTreeMap::new(),
            connections: BTreeMap::new(),
            messages: 0,
        };
        Self { shared: Arc::new(Mutex::new(shared)), chance, trace, reached }
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who answers at a machine.
    pub fn listen(&self, node: u64, answering: Option<Answering>) {
        let mut shared = self.shared();
        match answering {
            Some(answering) => shared.peers.insert(node, answering),
            None => shared.peers.remove(&node),
        };
    }

    /// How many messages were sent.
    pub fn messages(&self) -> u64 {
        self.shared().messages
    }

    /// Changes the weather.
    pub fn set_weather(&self, weather: Weather) {
        self.shared().weather = weather;
    }

    /// Delays all from and to a machine by so many microseconds more.
    pub fn slow(&self, node: u64, by: u64) {
        self.shared().slow.insert(node, by);
    }

    /// Lets nothing through in these directions from now on.
    pub fn cut(&self, directions: &[(u64, u64)]) {
        let shared = self.shared();
        shared.cuts.send_modify(|cuts| cuts.extend_from_slice(directions));
    }

    /// Lets through again what one cut has stopped; what another one stops stays stopped.
    pub fn mend(&self, directions: &[(u64, u64)]) {
        let shared = self.shared();
        shared.cuts.send_modify(|cuts| {
            for direction in directions {
                if let Some(at) = cuts.iter().position(|cut| cut == direction) {
                    cuts.swap_remove(at);
                }
            }
        });
    }

    /// Lets everything through.
    pub fn heal(&self) {
        let shared = self.shared();
        shared.cuts.send_replace(Vec::new());
    }

    /// A process has ended: its connections are reset, or just go silent with their machine.
    pub fn gone(&self, node: u64, dark: bool) {
        let lost: Vec<Connection> = {
            let mut shared = self.shared();
            shared.peers.remove(&node);
            shared.dark.insert(node, dark);
            let all = std::mem::take(&mut shared.connections);
            let (lost, kept) =
                all.into_iter().partition(|((from, to, _), _)| *from == node || *to == node);
            shared.connections = kept;
            BTreeMap::into_values(lost).collect()
        };
        let network = self.clone();
        tokio::spawn(async move {
            let silence =
                if dark { Duration::from_millis(1_000) } else { network.delay(node, node) };
            sleep(silence).await;
            lost.iter().for_each(Connection::lose);
        });
    }

    /// A machine is on again.
    pub fn lit(&self, node: u64) {
        self.shared().dark.remove(&node);
    }

    /// One way, for one message.
    fn delay(&self, from: u64, to: u64) -> Duration {
        let (weather, slow) = {
            let mut shared = self.shared();
            shared.messages += 1;
            let slow = |node| shared.slow.get(&node).copied().unwrap_or_default();
            (shared.weather, slow(from) + slow(to))
        };
        let mut micros = slow + self.chance.between(weather.delay_min, weather.delay_max);
        let mut again = 200_000;
        while self.chance.in_thousand(weather.loss) && again < 2_000_000 {
            self.reached.mark(Mark::MessageLost);
            micros += again;
            again *= 2;
        }
        Duration::from_micros(micros)
    }

    fn is_cut(&self, from: u64, to: u64) -> bool {
        self.shared().cuts.borrow().contains(&(from, to))
    }

    /// Waits until a direction is open; an error if that takes longer than the silence that a
    /// connection bears.
    async fn pass(&self, call: &Call, from: u64, to: u64, on: &Connection) -> Result<(), Status> {
        if on.is_lost() {
            return Err(broken());
        }
        if !self.is_cut(from, to) {
            return Ok(());
        }
        self.reached.mark(Mark::MessageHeld);
        let mut cuts = self.shared().cuts.subscribe();
        let open = cuts.wait_for(|cuts| !cuts.contains(&(from, to)));
        tokio::select! {
            biased;
            () = on.clone().lost() => return Err(broken()),
            passed = open => drop(passed),
            () = sleep(2 * call.silence) => {
                self.lose(call, on);
                return Err(broken());
            }
        }
        // It is sent again after a while.
        sleep(Duration::from_micros(self.chance.between(1_000, 200_000))).await;
        Ok(())
    }

    fn lose(&self, call: &Call, connection: &Connection) {
        self.reached.mark(Mark::ConnectionLost);
        connection.lose();
        let mut shared = self.shared();
        let key = (call.from, call.to, call.lane);
        if shared.connections.get(&key).is_some_and(|known| Arc::ptr_eq(&known.0, &connection.0)) {
            shared.connections.remove(&key);
        }
    }

    /// The connection of a call, and whether it had to be made.
    fn connection(&self, call: &Call) -> (Connection, bool) {
        let mut shared = self.shared();
        let key = (call.from, call.to, call.lane);
        match shared.connections.get(&key) {
            Some(known) if !known.is_lost() => (known.clone(), false),
            Some(_) | None => {
                let connection = Connection::new();
                shared.connections.insert(key, connection.clone());
                (connection, true)
            }
        }
    }

    /// Who answers at a machine; waits in vain if it is off.
    async fn find(&self, call: &Call) -> Result<Answering, Status> {
        let (peer, dark) = {
            let shared = self.shared();
            let dark = shared.dark.get(&call.to).copied().unwrap_or_default();
            (shared.peers.get(&call.to).cloned(), dark)
        };
        match peer {
            Some(peer) => Ok(peer),
            None => {
                if dark {
                    sleep(call.silence).await;
                }
                Err(Status::unavailable("nobody listens there"))
            }
        }
    }

    /// Carries a call.
    pub fn call(&self, call: Call, request: Request) -> BoxFuture<Response, Status> {
        let network = self.clone();
        let (done, answer) = oneshot::channel();
        tokio::spawn(async move {
            let answered = match call.lane {
                Lane::Control => network.single(&call, request).await,
                Lane::Bulk | Lane::Snapshot => network.stream(&call, request).await,
            };
            // Nobody waits for it any more when the caller has given up.
            drop(done.send(answered));
        });
        Box::pin(async move { answer.await.unwrap_or_else(|_gone| Err(broken())) })
    }

    /// A call of one message.
    async fn single(&self, call: &Call, request: Request) -> Result<Response, Status> {
        let (head, body) = request.into_parts();
        let frames = collect(body).await?;
        let (connection, new) = self.connection(call);
        if new {
            sleep(self.delay(call.from, call.to)).await;
        }
        self.pass(call, call.from, call.to, &connection).await?;
        let reset = self.reset();
        if reset == Some(true) {
            self.lose(call, &connection);
            return Err(broken());
        }
        let twice = self.chance.in_thousand(self.shared().weather.twice);
        if twice {
            self.reached.mark(Mark::MessageTwice);
            let (network, call) = (self.clone(), call.clone());
            let request = Request::from_parts(head.clone(), whole(frames.clone()));
            tokio::spawn(async move {
                sleep(network.delay(call.from, call.to) + network.delay(call.from, call.to)).await;
                let peer = network.shared().peers.get(&call.to).cloned();
                if let Some(peer) = peer {
                    drop(peer.answer(request).await);
                }
            });
        }
        sleep(self.delay(call.from, call.to)).await;
        self.pass(call, call.from, call.to, &connection).await?;
        let peer = self.find(call).await?;
        self.trace.note("call", call.from, call.to);
        let request = Request::from_parts(head, whole(frames));
        let response = peer.answer(request).await?;
        // What it holds of a process must not outlive it.
        drop(peer);
        let (head, body) = response.into_parts();
        let frames = collect(body).await?;
        if reset == Some(false) {
            self.reached.mark(Mark::AnswerLost);
            self.lose(call, &connection);
            return Err(broken());
        }
        sleep(self.delay(call.to, call.from)).await;
        self.pass(call, call.to, call.from, &connection).await?;
        Ok(Response::from_parts(head, whole(frames)))
    }

    /// Whether a call ends with its connection: before it arrives, or after.
    fn reset(&self) -> Option<bool> {
        let reset = self.shared().weather.reset;
        self.chance.in_thousand(reset).then(|| self.chance.in_thousand(500))
    }

    /// A call of many messages.
    async fn stream(&self, call: &Call, request: Request) -> Result<Response, Status> {
        let (connection, new) = self.connection(call);
        // Bodies hold on to what their process has: they stay with it.
        let (head, body) = request.into_parts();
        let there = self.carry((call, &connection), &call.caller, (call.from, call.to), body);
        let request = Request::from_parts(head, there);
        if new {
            sleep(self.delay(call.from, call.to)).await;
        }
        self.pass(call, call.from, call.to, &connection).await?;
        let peer = self.find(call).await?;
        let response = tokio::select! {
            biased;
            () = connection.clone().lost() => return Err(broken()),
            response = peer.answer(request) => response?,
        };
        let (head, body) = response.into_parts();
        let back = self.carry((call, &connection), peer.process(), (call.to, call.from), body);
        drop(peer);
        sleep(self.delay(call.to, call.from)).await;
        self.pass(call, call.to, call.from, &connection).await?;
        Ok(Response::from_parts(head, back))
    }

    /// Carries the frames of a body from a process to wherever the returned body is read.
    fn carry(
        &self,
        (call, connection): (&Call, &Connection),
        sender: &Process,
        (from, to): (u64, u64),
        mut body: Body,
    ) -> Body {
        let (frames, arriving) = mpsc::unbounded_channel();
        let (network, call, on) = (self.clone(), call.clone(), connection.clone());
        drop(sender.run(async move {
            let mut due = Instant::now();
            loop {
                let frame = tokio::select! {
                    biased;
                    () = on.clone().lost() => return,
                    () = frames.closed() => return,
                    frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context)) => frame,
                };
                if network.pass(&call, from, to, &on).await.is_err() {
                    return;
                }
                if network.reset().is_some() {
                    network.lose(&call, &on);
                    return;
                }
                network.trace.note("frame", from, to);
                due = due.max(Instant::now() + network.delay(from, to));
                let last = !matches!(frame, Some(Ok(_)));
                let frame = match frame {
                    Some(Ok(frame)) => Item::Frame(frame),
                    Some(Err(status)) => Item::Failed(status),
                    None => Item::End,
                };
                if frames.send((due, frame)).is_err() || last {
                    return;
                }
            }
        }));
        let lost: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(connection.clone().lost());
        Body::new(Arriving { frames: arriving, next: None, lost, done: false })
    }
}

/// The frames of a body that is there already.
async fn collect(mut body: Body) -> Result<Vec<Piece>, Status> {
    let mut pieces = Vec::new();
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        let frame = frame?;
        match frame.into_data() {
            Ok(data) => pieces.push(Piece::Data(data)),
            Err(frame) => {
                if let Ok(trailers) = frame.into_trailers() {
                    pieces.push(Piece::Trailers(trailers));
                }
            }
        }
    }
    Ok(pieces)
}

#[derive(Clone, Debug)]
enum Piece {
    Data(Bytes),
    Trailers(tonic::codegen::http::HeaderMap),
}

fn whole(pieces: Vec<Piece>) -> Body {
    let frames = pieces.into_iter().map(|piece| match piece {
        Piece::Data(data) => Frame::data(data),
        Piece::Trailers(trailers) => Frame::trailers(trailers),
    });
    Body::new(Whole(frames.collect()))
}

/// A body that is there as a whole.
struct Whole(VecDeque<Frame<Bytes>>);

impl http_body::Body for Whole {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Poll::Ready(self.0.pop_front().map(Ok))
    }
}

enum Item {
    Frame(Frame<Bytes>),
    Failed(Status),
    End,
}

/// A body that arrives piece by piece.
struct Arriving {
    frames: mpsc::UnboundedReceiver<(Instant, Item)>,
    next: Option<(Pin<Box<Sleep>>, Item)>,
    lost: Pin<Box<dyn Future<Output = ()> + Send>>,
    done: bool,
}

impl http_body::Body for Arriving {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.done {
            return Poll::Ready(None);
        }
        loop {
            if let Some((due, _)) = &mut self.next {
                let lost = match due.as_mut().poll(context) {
                    Poll::Ready(()) => false,
                    Poll::Pending => match self.lost.as_mut().poll(context) {
                        Poll::Ready(()) => true,
                        Poll::Pending => return Poll::Pending,
                    },
                };
                let item = self.next.take().map(|(_, item)| item);
                let item = if lost { Item::Failed(broken()) } else { item.unwrap_or(Item::End) };
                return Poll::Ready(match item {
                    Item::Frame(frame) => Some(Ok(frame)),
                    Item::Failed(status) => {
                        self.done = true;
                        Some(Err(status))
                    }
                    Item::End => {
                        self.done = true;
                        None
                    }
                });
            }
            match self.frames.poll_recv(context) {
                Poll::Ready(Some((due, item))) => {
                    self.next = Some((Box::pin(sleep_until(due)), item));
                }
                // The sender is gone without an end: with its process, or its connection.
                Poll::Ready(None) => match self.lost.as_mut().poll(context) {
                    Poll::Ready(()) => {
                        self.done = true;
                        return Poll::Ready(Some(Err(broken())));
                    }
                    Poll::Pending => return Poll::Pending,
                },
                Poll::Pending => match self.lost.as_mut().poll(context) {
                    Poll::Ready(()) => {
                        self.done = true;
                        return Poll::Ready(Some(Err(broken())));
                    }
                    Poll::Pending => return Poll::Pending,
                },
            }
        }
    }
}
