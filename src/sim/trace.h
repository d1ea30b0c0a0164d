// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "sim/model.h"

namespace quern::sim {

struct TraceOptions {
  double time_scale = 1;             ///< the time between two calls is multiplied by it; 0.01: 100 times as busy
  uint64_t object_bytes = 4 * kGiB;  ///< of one checkpoint model; the trace does not say
  uint64_t memory_bytes = 0;         ///< of a run for itself
  uint64_t most_rows = 0;            ///< only the first so many; 0: all
};

struct TraceRead {
  uint64_t rows = 0, skipped = 0;  ///< that became calls; that did not
  std::vector<std::string> why;    ///< of the first few that did not, with their lines
  Time last;                       ///< call
};

/// Adds the calls of a trace of image generation to a model: comma-separated, with a heading that names at least
/// gmt_create (YYYY-MM-DD hh:mm:ss), exec_time_seconds, groupId and checkpoint_model_version_id, in any order; no cell
/// holds a comma or quotes.
///
/// A group becomes a tenant; a checkpoint model becomes an object, the same one for all groups; a group and a model
/// become a function, and each row a call of it at its time after the first row, for as long on the device as it took.
/// A row that lacks one of the four, or took no time, becomes no call: it is counted and told. kInvalid if a column is
/// missing or no row can be used. At most 2^31 rows.
Result<TraceRead> add_trace(std::string_view text, const TraceOptions& options, Model& model);

}  // namespace quern::sim
