// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "daemon/daemon.h"
#include "server/http/json_answer.h"
#include "server/http/router.h"

namespace quern::server {

/// The settings of a PATCH of a function, by path: its body is a JSON object of them.
Result<std::map<std::string, std::string>> read_changes(const Route& route, std::string_view body);

// What was done to a function, once the daemon has told.
/// A PUT: 201 where it is new, 200 where it was current already.
JsonAnswer answer_deployed(const daemon::Deployed& deployed);
JsonAnswer answer_changed(const daemon::Function& function);
JsonAnswer answer_rolled_back(const daemon::Function& function);
JsonAnswer answer_removed(const std::string& name);
JsonAnswer answer_history(const std::string& name, const daemon::History& history);

}  // namespace quern::server
