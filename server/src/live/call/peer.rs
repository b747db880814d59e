//! The connection of a call with its client: ICE, DTLS, the audio track and the data channel.
//!
//! The service is the "lite" side of ICE: it has one host candidate, and answers the checks of the client. It sends to no address from
//! which no authenticated check came, so that candidates of an offer are not read at all.

use std::collections::VecDeque;
use std::future::pending;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{Duration, Instant};

use auricle_engine::converse::VOICE_RATE;
use str0m::change::SdpOffer;
use str0m::channel::ChannelId;
use str0m::media::{Frequency, MediaData, MediaKind, MediaTime, Mid};
use str0m::net::{Protocol, Receive};
use str0m::{Candidate, Event, IceConnectionState, Input, Output, Rtc};
use tokio::net::UdpSocket;
use tokio::sync::oneshot;
use tokio::time::sleep_until;
use tokio_util::sync::CancellationToken;

use super::CallSettings;
use super::track::{Microphone, Speaker};
use crate::live::socket::{CallEnd, ClientMessage, ServerMessage};

/// The longest time from the answer to a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A client from which nothing comes for this time is gone: its browser asks every few seconds if the service is there.
const SILENT_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest wait for a client to take the last events.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of events that the client has not taken.
const MAX_BUFFERED: usize = 512 << 10;
/// Messages that the session has not taken. Above it the network is not read.
const MAX_WAITING: usize = 16;
/// Samples of audio in a row among them. More is dropped.
const MAX_WAITING_SAMPLES: usize = 10 * VOICE_RATE as usize;
/// Longest datagram.
const MAX_DATAGRAM: usize = 2_000;

/// The reason for which an offer has no answer.
#[derive(Debug)]
pub enum Refusal {
    Offer(String),
    Port(std::io::Error),
}

/// The end of a connection.
struct Gone;

pub struct Peer {
    rtc: Rtc,
    udp: UdpSocket,
    /// The candidate.
    address: SocketAddr,
    track: Mid,
    /// True if the offer has a data channel.
    has_channel: bool,
    channel: Option<ChannelId>,
    is_connected: bool,
    microphone: Microphone,
    speaker: Speaker,
    /// Messages for the session.
    waiting: VecDeque<ClientMessage>,
    /// An event for which the channel has no room.
    unsent: Option<String>,
}

impl Peer {
    /// Answers an offer of this client's. Returns the answer, too.
    ///
    /// # Errors
    /// For an offer without audio, and where no port is free.
    pub async fn answer(settings: &CallSettings, client: IpAddr, offer: &str) -> Result<(Self, String), Refusal> {
        // The parser's errors go on with all that it expected.
        let wrong = |error: &dyn std::fmt::Display| {
            let error = error.to_string();
            Refusal::Offer(format!("This is no offer in SDP: {}.", error.lines().next().unwrap_or_default()))
        };
        let without_candidates: String =
            offer.split_inclusive('\n').filter(|line| !line.starts_with("a=candidate:")).collect();
        let offer = SdpOffer::from_sdp_string(&without_candidates).map_err(|error| wrong(&error))?;
        let (udp, address) = bind(settings, client).await.map_err(Refusal::Port)?;
        let now = Instant::now();
        let config = Rtc::builder().clear_codecs().enable_opus(true, false).set_ice_lite(true);
        let mut rtc = config.set_sctp_max_buffered_amount(MAX_BUFFERED).build(now);
        let candidate = Candidate::host(address, "udp").map_err(|error| wrong(&error))?;
        rtc.add_local_candidate(candidate);
        let answer = rtc.sdp_api().accept_offer(offer).map_err(|error| wrong(&error))?;
        let has_channel = answer.media_lines.iter().any(|line| line.typ.is_channel());
        let is_track = |mid: &Mid| {
            let media = rtc.media(*mid);
            media.is_some_and(|media| media.kind() == MediaKind::Audio && !media.remote_pts().is_empty())
        };
        let track = answer.media_lines.iter().map(|line| line.mid()).find(is_track).ok_or_else(|| {
            Refusal::Offer("The offer has no audio in Opus: add a track of the microphone before `createOffer`.".into())
        })?;
        let peer = Self {
            rtc,
            udp,
            address,
            track,
            has_channel,
            channel: None,
            is_connected: false,
            microphone: Microphone::default(),
            speaker: Speaker::new(now),
            waiting: VecDeque::new(),
            unsent: None,
        };
        Ok((peer, answer.to_sdp_string()))
    }

    /// Passes audio and events on until either side ends the call. Tells when the client is connected.
    pub async fn run(mut self, mut end: CallEnd, ready: oneshot::Sender<()>, hung_up: CancellationToken) {
        let _ = self.pass_on(&mut end, ready, &hung_up).await;
        let _ = self.rtc.close();
        let _ = self.poll().await;
    }

    async fn pass_on(
        &mut self,
        end: &mut CallEnd,
        ready: oneshot::Sender<()>,
        hung_up: &CancellationToken,
    ) -> Result<(), Gone> {
        let began = Instant::now();
        let (mut ready, mut last_packet) = (Some(ready), began);
        let mut closing: Option<Instant> = None;
        let mut datagram = [0; MAX_DATAGRAM];
        loop {
            let wake = self.poll().await?;
            if self.write_unsent()? {
                continue;
            }
            if self.is_connected && (self.channel.is_some() || !self.has_channel) {
                let _ = ready.take().map(|ready| ready.send(()));
            }
            if closing.is_some() && self.unsent.is_none() && self.buffered() == 0 {
                return Ok(());
            }
            let gone_at = match (&ready, closing) {
                (Some(_), _) => began + CONNECT_TIMEOUT,
                (None, Some(closing)) => closing + CLOSE_TIMEOUT,
                (None, None) => last_packet + SILENT_TIMEOUT,
            };
            let (reads, has_waiting) = (self.waiting.len() < MAX_WAITING, !self.waiting.is_empty());
            let takes = closing.is_none() && self.unsent.is_none() && ready.is_none();
            let due = self.speaker.due();
            tokio::select! {
                () = hung_up.cancelled() => return Err(Gone),
                () = sleep_until(gone_at.into()) => return Err(Gone),
                () = sleep_until(wake.into()) => self.handle(Input::Timeout(Instant::now()))?,
                () = until(due) => self.speak()?,
                received = self.udp.recv_from(&mut datagram), if reads => {
                    // An error is one of a datagram that was sent before, to a port that is closed now.
                    if let Ok((length, source)) = received && self.receive(source, &datagram[..length])? {
                        last_packet = Instant::now();
                    }
                }
                room = end.incoming.reserve(), if has_waiting => {
                    let room = room.map_err(|_| Gone)?;
                    if let Some(message) = self.waiting.pop_front() {
                        room.send(message);
                    }
                }
                message = end.outgoing.recv(), if takes => match message {
                    None => return Ok(()),
                    Some(ServerMessage::Close(..)) => closing = Some(Instant::now()),
                    Some(ServerMessage::Text(text)) => self.unsent = self.has_channel.then_some(text),
                    Some(ServerMessage::Binary(_) | ServerMessage::Pong(_)) => {}
                },
                Some(playback) = end.track.recv() => {
                    self.speaker.take(playback, Instant::now()).map_err(|_| Gone)?;
                }
            }
        }
    }

    fn handle(&mut self, input: Input<'_>) -> Result<(), Gone> {
        self.rtc.handle_input(input).map_err(|error| {
            tracing::debug!(%error, "the connection of a call failed");
            Gone
        })
    }

    /// Takes a datagram; false if it is none of the client's.
    fn receive(&mut self, source: SocketAddr, datagram: &[u8]) -> Result<bool, Gone> {
        let Ok(contents) = datagram.try_into() else { return Ok(false) };
        let received = Receive { proto: Protocol::Udp, source, destination: self.address, contents };
        let input = Input::Receive(Instant::now(), received);
        if !self.rtc.accepts(&input) {
            return Ok(false);
        }
        self.handle(input).map(|()| true)
    }

    /// Does all that there is to do now; returns when there is more.
    async fn poll(&mut self) -> Result<Instant, Gone> {
        loop {
            match self.rtc.poll_output() {
                Ok(Output::Timeout(_)) if !self.rtc.is_alive() => return Err(Gone),
                Ok(Output::Timeout(at)) => return Ok(at),
                // A datagram that cannot be sent is as one that is lost.
                Ok(Output::Transmit(packet)) => drop(self.udp.send_to(&packet.contents, packet.destination).await),
                Ok(Output::Event(event)) => self.happened(event)?,
                Err(error) => {
                    tracing::debug!(%error, "the connection of a call failed");
                    return Err(Gone);
                }
            }
        }
    }

    fn happened(&mut self, event: Event) -> Result<(), Gone> {
        match event {
            Event::Connected => self.is_connected = true,
            Event::ChannelOpen(id, _) => {
                self.channel.get_or_insert(id);
            }
            Event::ChannelData(data) if Some(data.id) == self.channel => {
                let message = match (data.binary, String::from_utf8(data.data)) {
                    (false, Ok(text)) => ClientMessage::Text(text),
                    (_, Ok(text)) => ClientMessage::Binary(text.into()),
                    (_, Err(error)) => ClientMessage::Binary(error.into_bytes().into()),
                };
                self.waiting.push_back(message);
            }
            Event::MediaData(data) if data.mid == self.track => self.listen(&data),
            Event::ChannelClose(id) if Some(id) == self.channel => return Err(Gone),
            Event::Closed | Event::IceConnectionStateChange(IceConnectionState::Disconnected) => return Err(Gone),
            _ => {}
        }
        Ok(())
    }

    fn listen(&mut self, data: &MediaData) {
        let samples = self.microphone.decode(data.time.numer(), &data.data);
        match self.waiting.back_mut() {
            Some(ClientMessage::Audio(waiting)) if waiting.len() < MAX_WAITING_SAMPLES => waiting.extend(samples),
            Some(ClientMessage::Audio(_)) => {}
            _ => self.waiting.push_back(ClientMessage::Audio(samples)),
        }
    }

    /// Sends the packet of audio that is due.
    fn speak(&mut self) -> Result<(), Gone> {
        let Some(packet) = self.speaker.packet().map_err(|_| Gone)? else { return Ok(()) };
        let Some(writer) = self.rtc.writer(self.track) else { return Ok(()) };
        let Some(opus) = writer.payload_params().next().map(|params| params.pt()) else { return Ok(()) };
        let time = MediaTime::new(packet.time, Frequency::FORTY_EIGHT_KHZ);
        // A client may listen to nothing.
        let _ = writer.start_of_talkspurt(packet.begins).write(opus, Instant::now(), time, packet.bytes);
        Ok(())
    }

    /// True if an event went into the channel.
    fn write_unsent(&mut self) -> Result<bool, Gone> {
        let Some(mut channel) = self.channel.and_then(|id| self.rtc.channel(id)) else { return Ok(false) };
        let Some(text) = &self.unsent else { return Ok(false) };
        let is_written = channel.write(false, text.as_bytes()).map_err(|_| Gone)?;
        if is_written {
            self.unsent = None;
        }
        Ok(is_written)
    }

    fn buffered(&mut self) -> usize {
        let channel = self.channel.and_then(|id| self.rtc.channel(id));
        channel.map_or(0, |mut channel| channel.buffered_amount())
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at.into()).await,
        None => pending().await,
    }
}

/// Binds a port; returns the address by which the client reaches it, too.
async fn bind(settings: &CallSettings, client: IpAddr) -> std::io::Result<(UdpSocket, SocketAddr)> {
    let public = match settings.public_ip.or(settings.listen.filter(|address| !address.is_unspecified())) {
        Some(address) => address,
        None => local_address(client).await?,
    };
    let listen = settings.listen.unwrap_or(match public {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    });
    let mut refused = std::io::ErrorKind::AddrInUse.into();
    for port in settings.ports.clone() {
        match UdpSocket::bind((listen, port)).await {
            Ok(socket) => {
                let port = socket.local_addr()?.port();
                return Ok((socket, (public, port).into()));
            }
            Err(error) => refused = error,
        }
    }
    Err(refused)
}

/// The address of this machine towards a client. Browsers of this machine send from one that others reach, too: they have no candidate on
/// the loopback.
async fn local_address(client: IpAddr) -> std::io::Result<IpAddr> {
    let towards = |remote: IpAddr| async move {
        let any: IpAddr = if remote.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let socket = UdpSocket::bind((any, 0)).await?;
        // Connecting sends nothing.
        socket.connect((remote, 9)).await?;
        Ok::<_, std::io::Error>(socket.local_addr()?.ip())
    };
    if client.is_loopback()
        && let Ok(address) = towards(Ipv4Addr::new(192, 0, 2, 1).into()).await
    {
        return Ok(address);
    }
    towards(client).await
}
