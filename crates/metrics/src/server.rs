//! The endpoint. Each scraper has a thread of its own, a time limit, and a place among few: the newest takes that of
//! the oldest, so nobody who only waits keeps others out.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use hugetext_host::Place;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::address::Address;
use crate::request::{LONGEST, Next, answer};

/// The connection of a scraper that takes longer is closed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The most scrapers at a time.
const MOST: usize = 16;

/// Why nothing can be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot serve metrics at {address}: {error}")]
pub struct ServeError {
    /// Where.
    pub address: Address,
    /// The error.
    pub error: io::Error,
}

/// A place that serves the last metrics given to it. Dropping it removes a socket from the file system;
/// the thread ends with the process.
#[derive(Debug)]
pub struct Endpoint {
    metrics: Arc<Mutex<Arc<str>>>,
    address: Address,
    socket: Option<Place>,
}

trait Peer: Read + Write + Sized + Send + 'static {
    fn limit(&self, time: Duration) -> io::Result<()>;
    fn another(&self) -> io::Result<Self>;
    fn close(&self);
}

impl Peer for TcpStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }

    fn another(&self) -> io::Result<TcpStream> {
        self.try_clone()
    }

    fn close(&self) {
        // The other side may have closed it.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Peer for UnixStream {
    fn limit(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }

    fn another(&self) -> io::Result<UnixStream> {
        self.try_clone()
    }

    fn close(&self) {
        // The other side may have closed it.
        let _ = self.shutdown(Shutdown::Both);
    }
}

impl Endpoint {
    /// Serves at `address`, at first nothing. A socket in the file system is for its owner and group.
    ///
    /// # Errors
    /// The address is in use, or not allowed.
    pub fn new(address: &Address) -> Result<Endpoint, ServeError> {
        let metrics: Arc<Mutex<Arc<str>>> = Arc::new(Mutex::new(Arc::from("# EOF\n")));
        let shared = Arc::clone(&metrics);
        let begun = match address {
            Address::Unix(path) => listen(path).and_then(|(listener, place)| {
                begin(move || Ok(listener.accept()?.0), shared)?;
                Ok((address.clone(), Some(place)))
            }),
            Address::Tcp(wanted) => TcpListener::bind(wanted).and_then(|listener| {
                let real = Address::Tcp(listener.local_addr()?);
                begin(move || Ok(listener.accept()?.0), shared)?;
                Ok((real, None))
            }),
        };
        let (address, socket) = begun.map_err(|error| ServeError {
            address: address.clone(),
            error,
        })?;
        Ok(Endpoint {
            metrics,
            address,
            socket,
        })
    }

    /// Where it serves, with the port that it has if port 0 was asked for.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// From now on, these are served.
    pub fn publish(&self, openmetrics: &str) {
        let mut metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        *metrics = Arc::from(openmetrics);
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if let Some(socket) = &self.socket {
            // What is left is replaced by the next one.
            let _ = socket.remove();
        }
    }
}

/// A socket at `path`, where one may lie that nobody serves any more.
fn listen(path: &Path) -> io::Result<(UnixListener, Place)> {
    let place = Place::at(path)?;
    let is_socket = fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket());
    if is_socket && !is_served(path)? {
        place.remove()?;
    }
    let listener = UnixListener::bind(path)?;
    // The directory may be another user's, who could have put a link there meanwhile.
    let socket = fs::File::from(place.look()?);
    let there = socket.metadata()?;
    if !there.file_type().is_socket() || there.uid() != rustix::process::geteuid().as_raw() {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    let mode = fs::Permissions::from_mode(0o660);
    fs::set_permissions(format!("/proc/self/fd/{}", socket.as_raw_fd()), mode)?;
    Ok((listener, place))
}

/// Whether somebody serves a socket, without waiting for them: who has a queue and takes nobody out of it could stop this
/// for ever.
fn is_served(path: &Path) -> io::Result<bool> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let peer = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    Ok(match connect(&peer, &SocketAddrUnix::new(path)?) {
        Ok(()) => true,
        // The queue is full (unix(7)).
        Err(error) => error == Errno::AGAIN,
    })
}

/// The scrapers that have not ended, the oldest first.
struct Scrapers<P>(VecDeque<(P, Arc<AtomicBool>)>);

impl<P: Peer> Scrapers<P> {
    /// Answers one more. The oldest is cut off if there are too many.
    fn begin(&mut self, mut peer: P, text: Arc<str>) -> io::Result<()> {
        self.0.retain(|(_, ended)| !ended.load(Ordering::Acquire));
        if self.0.len() >= MOST
            && let Some((oldest, _)) = self.0.pop_front()
        {
            oldest.close();
        }
        let ended = Arc::new(AtomicBool::new(false));
        self.0.push_back((peer.another()?, Arc::clone(&ended)));
        let serve = move || {
            // A scraper that went away is none of ours.
            let _ = converse(&mut peer, &text, Instant::now());
            peer.close();
            ended.store(true, Ordering::Release);
        };
        let thread = thread::Builder::new().name("scrape".to_owned());
        thread.spawn(serve).map(drop)
    }
}

fn begin<P: Peer>(
    accept: impl Fn() -> io::Result<P> + Send + 'static,
    metrics: Arc<Mutex<Arc<str>>>,
) -> io::Result<()> {
    let serve = move || {
        let mut scrapers = Scrapers(VecDeque::new());
        loop {
            let begun = accept().and_then(|peer| {
                let text = metrics.lock().unwrap_or_else(PoisonError::into_inner);
                scrapers.begin(peer, Arc::clone(&text))
            });
            // Out of descriptors or memory: not at once again.
            if begun.is_err() {
                thread::sleep(Duration::from_millis(100));
            }
        }
    };
    thread::Builder::new()
        .name("metrics".to_owned())
        .spawn(serve)
        .map(drop)
}

fn converse(peer: &mut impl Peer, metrics: &str, begun: Instant) -> io::Result<()> {
    let mut request = Vec::new();
    let mut bytes = [0; 1024];
    while request.len() < LONGEST {
        let left = PATIENCE.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        peer.limit(left)?;
        let read = peer.read(&mut bytes)?;
        request.extend_from_slice(bytes.get(..read).unwrap_or_default());
        match answer(&request, metrics) {
            Next::Read if read == 0 => return Ok(()),
            Next::Read => {}
            Next::Send(answer) => return send(peer, &answer, begun),
        }
    }
    Ok(())
}

/// Sends all within the time: each write alone may take what is left of it.
fn send(peer: &mut impl Peer, mut bytes: &[u8], begun: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = PATIENCE.saturating_sub(begun.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        peer.limit(left)?;
        let written = peer.write(bytes)?;
        if written == 0 {
            return Ok(());
        }
        bytes = bytes.get(written..).unwrap_or_default();
    }
    peer.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scrape(mut peer: impl Peer) -> String {
        peer.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        peer.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn both_sorts_of_address_serve_what_was_published_last() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("metrics.sock");
        let unix = Endpoint::new(&Address::Unix(path.clone())).unwrap();
        let any = Address::Tcp(([127, 0, 0, 1], 0).into());
        let tcp = Endpoint::new(&any).unwrap();
        let Address::Tcp(real) = tcp.address() else {
            panic!("{:?}", tcp.address());
        };
        for number in ["1", "2"] {
            let text = format!("a {number}\n# EOF\n");
            unix.publish(&text);
            tcp.publish(&text);
            let wanted = format!("\r\n\r\na {number}\n");
            assert!(scrape(UnixStream::connect(&path).unwrap()).ends_with(&wanted));
            assert!(scrape(TcpStream::connect(real).unwrap()).ends_with(&wanted));
        }
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660);
        assert!(Endpoint::new(&Address::Unix(path.clone())).is_err());
        drop(unix);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_whose_owner_takes_nobody_in_keeps_no_daemon_waiting() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("metrics.sock");
        let address = SocketAddrUnix::new(&path).unwrap();
        let open = |flags| socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let other = open(SocketFlags::CLOEXEC).unwrap();
        rustix::net::bind(&other, &address).unwrap();
        rustix::net::listen(&other, 0).unwrap();
        let mut waiting = Vec::new();
        loop {
            let peer = open(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK).unwrap();
            match connect(&peer, &address) {
                Ok(()) => waiting.push(peer),
                Err(error) => break assert_eq!(error, Errno::AGAIN),
            }
        }
        let refused = Endpoint::new(&Address::Unix(path.clone())).unwrap_err();
        assert!(refused.to_string().contains("in use"), "{refused}");
        assert!(path.exists());
    }

    #[test]
    fn what_a_killed_daemon_left_is_replaced_and_a_file_is_not() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("metrics.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let endpoint = Endpoint::new(&Address::Unix(path.clone())).unwrap();
        drop(endpoint);
        fs::write(&path, "precious").unwrap();
        let refused = Endpoint::new(&Address::Unix(path.clone())).unwrap_err();
        assert!(refused.to_string().contains("metrics.sock"), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
    }

    #[test]
    fn scrapers_that_say_nothing_keep_nobody_waiting() {
        let any = Address::Tcp(([127, 0, 0, 1], 0).into());
        let endpoint = Endpoint::new(&any).unwrap();
        let Address::Tcp(real) = endpoint.address() else {
            panic!("{:?}", endpoint.address());
        };
        let mut silent = Vec::new();
        for _ in 0..10 {
            silent.extend((0..20).map(|_| TcpStream::connect(real).unwrap()));
            // One after the other, these would keep it waiting for minutes.
            let peer = TcpStream::connect(real).unwrap();
            peer.limit(Duration::from_secs(20)).unwrap();
            assert!(scrape(peer).contains("200 OK"));
        }
    }

    #[test]
    fn a_link_where_the_socket_should_be_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (path, precious) = (directory.path().join("s"), directory.path().join("p"));
        fs::write(&precious, "").unwrap();
        fs::set_permissions(&precious, fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&precious, &path).unwrap();
        assert!(Endpoint::new(&Address::Unix(path)).is_err());
        let mode = precious.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
