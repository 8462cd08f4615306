//! Descriptors that this process inherited, other than standard input, output and error.
//!
//! Both functions run before this process opens descriptors of its own, so no object owns the
//! descriptors that they close.

use std::fs;
use std::os::fd::{AsRawFd, IntoRawFd, RawFd};

use nix::unistd::close;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};

/// Closes all inherited descriptors.
pub(super) fn close_all() {
    for descriptor in inherited() {
        // OK to drop: the descriptor of the folder itself is closed already.
        let _ = close(descriptor);
    }
}

/// Marks all inherited descriptors to be closed by `exec`. They stay open, because paths such as
/// `/dev/fd/63` and locks may need them. Without `pidfd_getfd` (Linux 5.6; some containers refuse
/// it) programs without a sandbox inherit them.
///
/// Setting the mark on a number is unsafe in Rust, so each descriptor is replaced by a copy.
pub(super) fn close_at_exec() {
    let Ok(own) = pidfd_open(getpid(), PidfdFlags::empty()) else { return };
    for descriptor in inherited().into_iter().filter(|descriptor| *descriptor != own.as_raw_fd()) {
        let Ok(copy) = pidfd_getfd(&own, descriptor, PidfdGetfdFlags::empty()) else { continue };
        if close(descriptor).is_ok() {
            // `descriptor` is the lowest free number from itself on, so the copy gets it. The copy
            // stays open.
            let _ = fcntl_dupfd_cloexec(&copy, descriptor).map(IntoRawFd::into_raw_fd);
        }
    }
}

/// Returns the numbers of the inherited descriptors, and the number of the folder that lists them.
fn inherited() -> Vec<RawFd> {
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|number| *number > 2).collect()
}
