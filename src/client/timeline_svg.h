// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "client/timeline.h"

namespace quern::client {

/// A part of a timeline as a picture that needs nothing else: a band for each device, in it a row for each launcher,
/// the most urgent first, then gaps and what was brought to the device. Every bar says on hover what it is.
///
/// Bars have the class `run`, `kernel`, `slice`, …. What would be narrower than a pixel is drawn together with what is
/// beside it, `data-spans` says how many, so that a picture of any trace has bounded size; past kMostRows rows of a
/// device the rest is left out, and it says so.
///
/// kInvalid if `from` is not before its end, or `length` is not positive.
Result<std::string> timeline_svg(const Timeline& timeline, Duration from = {0}, Duration length = Duration::forever());

constexpr size_t kMostRows = 64;

}  // namespace quern::client
