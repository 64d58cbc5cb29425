//! What the socket carries: frames of NRI's multiplexer, which carry ttrpc messages of two connections.
//!
//! A frame is the number of a connection and a length, both of 32 bits in network order, and that many bytes of
//! the connection. A message may take several frames. A ttrpc message is a header of ten bytes (length, stream,
//! kind, flags) and a payload. The crate `ttrpc` wants a socket for each connection, which NRI does not have.

use std::io::{self, Read, Write};

/// A frame's header.
const FRAME_HEADER: usize = 8;
/// The longest frame that is written. Readers of NRI have a buffer of this length, and lose a longer frame.
const WRITTEN_FRAME: usize = 4096;
/// A message's header.
const MESSAGE_HEADER: usize = 10;
/// The longest payload of a message, by ttrpc.
const PAYLOAD_LIMIT: usize = 4 << 20;

/// A connection of the multiplexer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// The runtime calls the plugin.
    Plugin,
    /// The plugin calls the runtime.
    Runtime,
}

impl Lane {
    const ALL: [Lane; 2] = [Lane::Plugin, Lane::Runtime];

    fn number(self) -> u32 {
        match self {
            Lane::Plugin => 1,
            Lane::Runtime => 2,
        }
    }

    fn of(number: u32) -> Option<Lane> {
        Lane::ALL.into_iter().find(|lane| lane.number() == number)
    }
}

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A call.
    Request,
    /// Its answer.
    Response,
    /// Anything else. NRI uses no streams.
    Other(u8),
}

impl Kind {
    fn number(self) -> u8 {
        match self {
            Kind::Request => 1,
            Kind::Response => 2,
            Kind::Other(number) => number,
        }
    }

    fn of(number: u8) -> Kind {
        match number {
            1 => Kind::Request,
            2 => Kind::Response,
            other => Kind::Other(other),
        }
    }
}

/// A ttrpc message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    /// The call that it belongs to; odd.
    pub(crate) stream: u32,
    /// What it is.
    pub(crate) kind: Kind,
    /// An encoded request or response.
    pub(crate) payload: Vec<u8>,
}

/// Why nothing more can be read or written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WireError {
    /// The other side closed the socket.
    #[error("the runtime closed the connection")]
    Closed,
    /// The kernel's error.
    #[error("the connection failed: {0}")]
    Io(io::Error),
    /// A length that no sender may use.
    #[error("the runtime announced {0} bytes in one piece, more than ttrpc allows")]
    TooLong(usize),
}

impl From<io::Error> for WireError {
    fn from(error: io::Error) -> WireError {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => WireError::Closed,
            _ => WireError::Io(error),
        }
    }
}

impl Message {
    /// The first message of `bytes`, and its length, if all of it is there.
    fn first(bytes: &[u8]) -> Result<Option<(Message, usize)>, WireError> {
        let Some((header, rest)) = bytes.split_first_chunk::<MESSAGE_HEADER>() else {
            return Ok(None);
        };
        let [a, b, c, d, e, f, g, h, kind, _flags] = *header;
        let length = u32::from_be_bytes([a, b, c, d]) as usize;
        if length > PAYLOAD_LIMIT {
            return Err(WireError::TooLong(length));
        }
        let message = rest.get(..length).map(|payload| Message {
            stream: u32::from_be_bytes([e, f, g, h]),
            kind: Kind::of(kind),
            payload: payload.to_vec(),
        });
        Ok(message.map(|message| (message, MESSAGE_HEADER + length)))
    }

    fn encode(&self) -> Result<Vec<u8>, WireError> {
        let length = self.payload.len();
        let short = u32::try_from(length)
            .ok()
            .filter(|_| length <= PAYLOAD_LIMIT);
        let short = short.ok_or(WireError::TooLong(length))?;
        let mut bytes = Vec::with_capacity(MESSAGE_HEADER + length);
        bytes.extend(short.to_be_bytes());
        bytes.extend(self.stream.to_be_bytes());
        bytes.push(self.kind.number());
        bytes.push(0);
        bytes.extend(&self.payload);
        Ok(bytes)
    }
}

/// The socket, with what was read of messages that are not complete.
#[derive(Debug)]
pub(crate) struct Trunk<S> {
    socket: S,
    plugin: Vec<u8>,
    runtime: Vec<u8>,
}

impl<S: Read + Write> Trunk<S> {
    /// A socket of which nothing was read.
    pub(crate) fn new(socket: S) -> Trunk<S> {
        Trunk {
            socket,
            plugin: Vec::new(),
            runtime: Vec::new(),
        }
    }

    /// The next message of any connection.
    pub(crate) fn receive(&mut self) -> Result<(Lane, Message), WireError> {
        loop {
            for lane in Lane::ALL {
                let received = self.received(lane);
                if let Some((message, length)) = Message::first(received)? {
                    received.drain(..length);
                    return Ok((lane, message));
                }
            }
            self.read_frame()?;
        }
    }

    /// Writes a message.
    pub(crate) fn send(&mut self, lane: Lane, message: &Message) -> Result<(), WireError> {
        for part in message.encode()?.chunks(WRITTEN_FRAME) {
            let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
            let mut frame = Vec::with_capacity(FRAME_HEADER + part.len());
            frame.extend(lane.number().to_be_bytes());
            frame.extend(length.to_be_bytes());
            frame.extend(part);
            self.socket.write_all(&frame)?;
        }
        Ok(self.socket.flush()?)
    }

    fn received(&mut self, lane: Lane) -> &mut Vec<u8> {
        match lane {
            Lane::Plugin => &mut self.plugin,
            Lane::Runtime => &mut self.runtime,
        }
    }

    /// Adds a frame to what was received. A frame of an unknown connection is dropped, as NRI does.
    fn read_frame(&mut self) -> Result<(), WireError> {
        let mut header = [0; FRAME_HEADER];
        self.socket.read_exact(&mut header)?;
        let [a, b, c, d, e, f, g, h] = header;
        let length = u32::from_be_bytes([e, f, g, h]) as usize;
        if length > MESSAGE_HEADER + PAYLOAD_LIMIT {
            return Err(WireError::TooLong(length));
        }
        let mut bytes = vec![0; length];
        self.socket.read_exact(&mut bytes)?;
        if let Some(lane) = Lane::of(u32::from_be_bytes([a, b, c, d])) {
            self.received(lane).append(&mut bytes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;

    fn message(stream: u32, payload: Vec<u8>) -> Message {
        Message {
            stream,
            kind: Kind::Request,
            payload,
        }
    }

    fn written(messages: &[(Lane, Message)]) -> Vec<u8> {
        let mut trunk = Trunk::new(Cursor::new(Vec::new()));
        for (lane, message) in messages {
            trunk.send(*lane, message).unwrap();
        }
        trunk.socket.into_inner()
    }

    /// The first bytes that a plugin of NRI 0.6 sends: connection 2, ttrpc stream 1.
    #[test]
    fn frames_are_those_of_nri() {
        let bytes = written(&[(Lane::Runtime, message(1, b"xy".to_vec()))]);
        let frame = [0, 0, 0, 2, 0, 0, 0, 12];
        let header = [0, 0, 0, 2, 0, 0, 0, 1, 1, 0];
        assert_eq!(bytes, [&frame[..], &header, b"xy"].concat());
    }

    #[test]
    fn no_written_frame_is_longer_than_the_buffer_of_a_reader() {
        let bytes = written(&[(Lane::Plugin, message(1, vec![7; 100_000]))]);
        let mut rest = bytes.as_slice();
        while let Some((header, more)) = rest.split_first_chunk::<8>() {
            let length = u32::from_be_bytes([header[4], header[5], header[6], header[7]]) as usize;
            assert!(length <= 4096);
            rest = &more[length..];
        }
    }

    #[test]
    fn lengths_that_no_sender_may_use_are_refused_before_memory_is_taken() {
        let frame = [0, 0, 0, 1, 255, 255, 255, 255];
        let mut trunk = Trunk::new(Cursor::new(frame.to_vec()));
        assert!(matches!(trunk.receive(), Err(WireError::TooLong(_))));
        let inner = [0, 0, 0, 1, 0, 0, 0, 10, 255, 0, 0, 0, 0, 0, 0, 1, 1, 0];
        let mut trunk = Trunk::new(Cursor::new(inner.to_vec()));
        assert!(matches!(trunk.receive(), Err(WireError::TooLong(_))));
    }

    #[test]
    fn unknown_connections_are_passed_over() {
        let mut bytes = vec![0, 0, 0, 9, 0, 0, 0, 1, 0];
        let known = (Lane::Plugin, message(3, vec![1]));
        bytes.extend(written(std::slice::from_ref(&known)));
        let mut trunk = Trunk::new(Cursor::new(bytes));
        assert_eq!(trunk.receive().unwrap(), known);
        assert!(matches!(trunk.receive(), Err(WireError::Closed)));
    }

    proptest! {
        #[test]
        fn what_is_sent_arrives(
            payloads in prop::collection::vec((any::<bool>(), prop::collection::vec(any::<u8>(), 0..9000)), 0..5)
        ) {
            let messages: Vec<_> = payloads
                .into_iter()
                .zip(0u32..)
                .map(|((plugin, payload), at)| {
                    let lane = if plugin { Lane::Plugin } else { Lane::Runtime };
                    (lane, message(2 * at + 1, payload))
                })
                .collect();
            let mut trunk = Trunk::new(Cursor::new(written(&messages)));
            for expected in &messages {
                prop_assert_eq!(&trunk.receive().unwrap(), expected);
            }
        }

        #[test]
        fn any_bytes_end_in_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut trunk = Trunk::new(Cursor::new(bytes));
            while trunk.receive().is_ok() {}
        }
    }
}
