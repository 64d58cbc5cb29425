//! What the kernel tells a program at its start of where its parts lie, and how that is told anew.

use std::fs;
use std::io;

use hugetext_host::Tid;
use procfs::FromRead;
use procfs::process::Stat;

/// Keys of the auxiliary vector (include/uapi/linux/auxvec.h).
const AT_NULL: u64 = 0;
const AT_PHDR: u64 = 3;
const AT_ENTRY: u64 = 9;
const AT_SYSINFO_EHDR: u64 = 33;
/// AT_VECTOR_SIZE of the kernel is smaller everywhere.
const LONGEST: usize = 128;
/// How far below the stack pointer this process writes. The kernel makes the stack of a new program larger than that.
const BELOW: u64 = 16 << 10;

/// The parts of a process, in the order of struct prctl_mm_map (include/uapi/linux/prctl.h), without its last fields.
pub(super) struct Parts {
    code: [u64; 2],
    data: [u64; 2],
    start_brk: u64,
    /// The stack pointer at the first instruction.
    pub(super) start_stack: u64,
    arguments: [u64; 2],
    environment: [u64; 2],
    /// Keys and values, without AT_NULL.
    pub(super) auxiliary: Vec<[u64; 2]>,
}

impl Parts {
    /// Those of a program that has executed nothing yet.
    pub(super) fn read(tid: Tid) -> io::Result<Parts> {
        let stat = Stat::from_file(format!("/proc/{tid}/stat")).map_err(io::Error::other)?;
        let known = |field: Option<u64>| field.ok_or(io::Error::from(io::ErrorKind::Unsupported));
        let words = words(&fs::read(format!("/proc/{tid}/auxv"))?);
        let pairs = words
            .chunks_exact(2)
            .filter_map(|pair| Some([*pair.first()?, *pair.get(1)?]));
        let auxiliary: Vec<[u64; 2]> = pairs.take_while(|[key, _]| *key != AT_NULL).collect();
        if auxiliary.len() >= LONGEST {
            return Err(io::ErrorKind::InvalidData.into());
        }
        Ok(Parts {
            code: [stat.startcode, stat.endcode],
            data: [known(stat.start_data)?, known(stat.end_data)?],
            start_brk: known(stat.start_brk)?,
            start_stack: stat.startstack,
            arguments: [known(stat.arg_start)?, known(stat.arg_end)?],
            environment: [known(stat.env_start)?, known(stat.env_end)?],
            auxiliary,
        })
    }

    fn auxiliary(&self, wanted: u64) -> io::Result<u64> {
        let mut values = self.auxiliary.iter();
        let found = values.find(|[key, _]| *key == wanted);
        found
            .map(|[_, value]| *value)
            .ok_or(io::ErrorKind::InvalidData.into())
    }

    /// AT_ENTRY: where the program begins.
    pub(super) fn entry(&self) -> io::Result<u64> {
        self.auxiliary(AT_ENTRY)
    }

    /// AT_SYSINFO_EHDR: where the vDSO lies.
    pub(super) fn vdso(&self) -> io::Result<u64> {
        self.auxiliary(AT_SYSINFO_EHDR)
    }

    /// Memory below the stack pointer that nobody uses yet.
    pub(super) fn scratch(&self) -> u64 {
        self.start_stack.saturating_sub(BELOW) & !0xf
    }

    /// The same parts, with the image moved.
    pub(super) fn moved(&self, by: u64) -> Parts {
        let both = |span: [u64; 2]| span.map(|address| address.wrapping_add(by));
        let auxiliary = self.auxiliary.iter().map(|[key, value]| match *key {
            key if lies_in_image(key) => [key, value.wrapping_add(by)],
            key => [key, *value],
        });
        Parts {
            code: both(self.code),
            data: both(self.data),
            auxiliary: auxiliary.collect(),
            ..*self
        }
    }

    /// struct prctl_mm_map, for a vector that lies at `auxiliary_at`, and the vector.
    pub(super) fn as_map(&self, auxiliary_at: u64) -> (Vec<u64>, Vec<u64>) {
        let vector = self.vector();
        let len = u32::try_from(vector.len().saturating_mul(8)).unwrap_or(0);
        // auxv_size, and exe_fd, which is -1: the program stays what it is.
        let mut last = [0; 8];
        let (first, second) = last.split_at_mut(4);
        first.copy_from_slice(&len.to_ne_bytes());
        second.copy_from_slice(&u32::MAX.to_ne_bytes());
        let [start_code, end_code] = self.code;
        let [start_data, end_data] = self.data;
        let [arg_start, arg_end] = self.arguments;
        let [env_start, env_end] = self.environment;
        let map = vec![
            start_code,
            end_code,
            start_data,
            end_data,
            self.start_brk,
            // Nothing has been allocated yet.
            self.start_brk,
            self.start_stack,
            arg_start,
            arg_end,
            env_start,
            env_end,
            auxiliary_at,
            u64::from_ne_bytes(last),
        ];
        (map, vector)
    }

    fn vector(&self) -> Vec<u64> {
        let mut words: Vec<u64> = self.auxiliary.iter().flatten().copied().collect();
        words.extend([AT_NULL, 0]);
        words
    }
}

/// Whether the value of a key is an address in the image of the program.
pub(super) fn lies_in_image(key: u64) -> bool {
    matches!(key, AT_PHDR | AT_ENTRY)
}

/// The whole words that these bytes are.
pub(super) fn words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| {
        let mut word = [0; 8];
        word.copy_from_slice(bytes);
        u64::from_ne_bytes(word)
    };
    bytes.chunks_exact(8).map(word).collect()
}
