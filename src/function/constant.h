// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <span>

#include "base/result.h"
#include "function/plan.h"

namespace quern {

/// The elements of a constant: those in the manifest, a file as it is, or behind the header of an .npy or .safetensors
/// whose dtype and shape must match. They live in `buffer` or in `files`.
Result<std::span<const std::byte>> constant_bytes(const BufferDecl& buffer, const PlannedBuffer& planned,
                                                  const Files& files);

}  // namespace quern
