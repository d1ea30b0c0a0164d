// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>

#include "base/result.h"

namespace quern::daemon {

/// The folder `aside/TIME` of a state folder: whatever is damaged, or known to nobody, is moved there and not deleted.
/// It keeps its path below that folder. The server never looks there. Neither folder may be a link: kDenied. One thread
/// at a time.
class Aside {
 public:
  /// Nothing is made before the first `take` or `copy`. All that is made belongs to the user `owner`.
  Aside(std::string state_folder, uint32_t owner) : folder_(std::move(state_folder)), owner_(owner) {}

  /// Moves a file or folder, named relative to the state folder. Returns where it is from now on, also relative; empty
  /// if there is no such file. A link is moved, not what it leads to.
  Result<std::string> take(const std::string& path);
  /// Copies a file of which the original stays. `from` is where it is, `path` the name of the copy below `aside/TIME`.
  /// The copy is on disk when this returns, so that the caller may remove the original.
  Result<std::string> copy(const std::string& from, const std::string& path);

  /// Relative to the state folder; empty as long as nothing was taken.
  const std::string& name() const { return aside_; }

 private:
  Result<std::string> place_for(const std::string& path);
  Status make(const std::string& name) const;
  Status give(const std::string& path) const;

  const std::string folder_;
  const uint32_t owner_;
  std::string aside_;
};

}  // namespace quern::daemon
