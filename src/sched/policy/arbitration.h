// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace quern::sched {

/// Which launcher may put how much on the device now? As data: what gates are used for.
struct Arbitration {
  bool closes = false;  ///< less urgent launchers while a more urgent one has work
  bool fills = false;   ///< one of them is open in gaps of more urgent ones
  bool slices = false;  ///< kernels are cut: to fit a gap, and to stop soon
  bool varies = false;  ///< gaps that vary are told from stable ones
};

}  // namespace quern::sched
