// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>

namespace quern::hal::opencl {

/// What one OpenCL driver does differently from what the specification lets expect.
///
/// Everything that depends on the vendor is a field of this row. Code asks for the field and never for the vendor,
/// except in PoCL's own files (pocl_*.cc, code_folder.cc). A new driver needs a row only if a conformance test fails
/// without one; the row states what was seen, and with which version.
struct Traits {
  /// The format of what CL_PROGRAM_BINARIES gives.
  enum class Binaries : uint8_t {
    kOpaque,  ///< complete machine code, loaded as it is
    kPocl,    ///< PoCL's own format: code for sizes of groups that are named before the first call, and a cache folder
  };
  /// Where the driver's timestamps come from.
  enum class Clock : uint8_t {
    kAsked,         ///< not known: clGetDeviceAndHostTimer relates it to ours, or else a command does
    kMonotonicRaw,  ///< CLOCK_MONOTONIC_RAW of this machine
  };

  std::string_view platform;  ///< CL_PLATFORM_NAME; empty: every platform
  std::string_view version;   ///< CL_DRIVER_VERSION begins with it; empty: every version
  std::string_view reason;    ///< what was seen, with which version

  Binaries binaries = Binaries::kOpaque;
  Clock clock = Clock::kAsked;
  /// clFinish and clWaitForEvents execute kernels on the thread that calls them, also those submitted after the event
  /// that is waited for; without such a thread one of the device's units stands idle.
  bool waiting_thread_computes = false;
  /// Parts of the device are executed by the same threads, so that launches in different parts wait for each other:
  /// the device is not divided.
  bool parts_share_workers = false;
  /// The driver counts wrong which code is in use, and aborts for it (pocl_release.cc).
  bool counts_code_wrong = false;
  /// Memory that a process uses before its first buffer; 0: not measured.
  uint64_t context_bytes = 0;
};

/// The row of a driver: the first that fits. There always is one.
const Traits& traits_of(std::string_view platform, std::string_view driver_version);

}  // namespace quern::hal::opencl
