// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <span>
#include <string>

#include "sim/model.h"
#include "sim/report.h"

namespace quern::sim {

/// Which rows there are beside those of the whole.
enum class Detail : uint8_t { kNone, kTenants, kFunctions };

/// For people: what was measured below each other, the policies side by side; then the rows of `detail`, a table for
/// each policy. Ends and faults that never came are left out. Programs have a row for their rounds and two for how long
/// those took.
std::string table_of(const Model& model, std::span<const Summary> summaries, Detail detail);

/// For programs, in one line: all times in ns, all that was measured, tenants and functions as `detail` says. Names in
/// a model are plain words (model_file.h, trace.h), so they need no escapes.
std::string json_of(const Model& model, std::span<const Summary> summaries, uint64_t seed, Detail detail);

}  // namespace quern::sim
