//! The page faults of a process, as the kernel tells profilers (perf_event_open(2), the software event
//! `page-faults`).

use std::io;

use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};

use super::id::Pid;
use crate::machine::own_processors;

/// Bytes of records that wait for each processor: 32,768 faults.
const BUFFER: usize = 512 << 10;

/// perf_event_header.type (linux/perf_event.h).
const LOST: u32 = 2;
const SAMPLE: u32 = 9;

/// The faults of one process and its threads since this value was made.
pub struct FaultTrace(Vec<Sampler>);

impl std::fmt::Debug for FaultTrace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FaultTrace on {} processors", self.0.len())
    }
}

impl FaultTrace {
    /// Begins, on all processors that this process may run on. An error if it is not permitted: faults that the
    /// kernel takes for a process are counted, for which other users than root need perf_event_paranoid at 1 or less.
    pub fn of(pid: Pid) -> io::Result<FaultTrace> {
        let processors = own_processors();
        if processors.is_empty() {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let samplers = processors.into_iter().map(|processor| {
            let mut counter = Builder::new(Software::PAGE_FAULTS)
                .observe_pid(pid.as_raw())
                .one_cpu(processor as usize)
                .inherit(true)
                .inherit_thread(true)
                .include_kernel()
                .sample_period(1)
                .sample(SampleFlag::ADDR)
                .build()?;
            counter.enable()?;
            counter.sampled(BUFFER)
        });
        Ok(FaultTrace(samplers.collect::<io::Result<_>>()?))
    }

    /// The addresses of the faults; `None` if there were more than fit.
    pub fn addresses(mut self) -> Option<Vec<u64>> {
        let mut found = Vec::new();
        for sampler in &mut self.0 {
            while let Some(record) = sampler.next_record() {
                match record.ty() {
                    LOST => return None,
                    SAMPLE => {
                        let bytes = record.to_contiguous();
                        let address = bytes.first_chunk::<8>()?;
                        found.push(u64::from_ne_bytes(*address));
                    }
                    _ => {}
                }
            }
        }
        Some(found)
    }
}
