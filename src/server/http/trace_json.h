// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "daemon/trace.h"

namespace quern::server {

/// A complete trace in Chrome's trace event format, which Perfetto opens. A device is a process; what a launcher runs,
/// its gate, its gaps, and what is brought to an executor are threads. `ts` and `dur` are in us from the beginning, in
/// order; what is on one thread is one after the other or inside each other.
///
/// `cat` is run, work (of a program), kernel, slice, gate, gap, load or executor. `thread_name` also says what the
/// thread is (`kind`: launcher, gate, gaps, brought) and whose (`launcher`), for who draws it in another way.
std::string trace_json(daemon::Trace trace);

}  // namespace quern::server
