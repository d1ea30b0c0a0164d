// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>

#include "sched/devices.h"
#include "sched/rectangles.h"

namespace quern::sched {

/// Where functions with a quota are: each has a level of its own, and one that is to have a share in any case a device
/// that has it left. The shares given away of a device are rectangles (time by units) that do not overlap, so that
/// they never sum up to more than there is.
///
/// A share stays given while nobody else asks for it; one whose function has nothing to do goes to who asks. Looking
/// for a device asks all of them, once per function and not per request.
class Homes {
 public:
  struct Home {
    LevelNo own = 0;  ///< of its levels
    Quota quota;
    std::optional<DeviceId> device;  ///< where it runs; nothing: anywhere
    Rectangle at;
    uint64_t holders = 0;  ///< its requests and runs
    Time used = {0};
  };

  /// Makes sure that it has what its quota says, on a device that holds `bytes`; null: no device has that left, and if
  /// it had something else it keeps that.
  Home* settle(FunctionId function, const Quota& quota, uint64_t bytes, const Devices& devices, Time now);
  void hold(FunctionId function);
  void release(FunctionId function, Time now);
  void gone(FunctionId function);
  void device_down(DeviceId device);

  const Home* find(FunctionId function) const;
  const std::map<FunctionId, Home>& all() const { return homes_; }
  /// Where requests of this level have to run; nothing: anywhere.
  std::optional<DeviceId> device_of(LevelNo level) const;
  const Rectangles* shares(DeviceId device) const;
  size_t size() const { return homes_.size(); }

 private:
  void leave(Home& home);
  /// Also where others have to make room that do not need theirs.
  bool place(Home& home, uint64_t bytes, const Devices& devices);
  bool drop_idle();
  void drop(std::map<FunctionId, Home>::iterator it);
  bool find_place(Home& home, uint64_t bytes, const Devices& devices);

  std::map<FunctionId, Home> homes_;
  std::map<LevelNo, FunctionId> by_own_;
  std::map<DeviceId, Rectangles> shares_;
};

}  // namespace quern::sched
