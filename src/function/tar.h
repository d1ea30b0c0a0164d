// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "function/manifest.h"

namespace quern {

/// Limits on an uploaded folder: beyond them it is refused before anything is kept.
constexpr size_t kMostFiles = 4096;
constexpr uint64_t kMostFolderBytes = uint64_t{1} << 30;

/// Regular files of a ustar, pax or GNU tar. Links, devices, absolute names, `..` and names given twice are kInvalid.
/// A single leading folder ("./", "saxpy/") common to all names is not removed: names are relative to the folder.
Result<Files> read_tar(std::span<const std::byte> tar);

/// The same files always give the same bytes: sorted names, no times, no owners.
Result<Bytes> write_tar(const Files& files);

}  // namespace quern
