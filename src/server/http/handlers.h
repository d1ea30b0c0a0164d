// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "server/http/connection.h"

namespace quern::server {

// The handlers: one function for each method of each path. A handler runs on the thread of its connection, after the
// head of the request was checked and the tenant was found; the body of the request is still in the socket. A handler
// answers exactly once.

// functions.cc: these show the server, its devices and its functions, and wait for nothing.
Task<Then> show_server(Connection& connection);
Task<Then> show_live(Connection& connection);
Task<Then> show_ready(Connection& connection);
Task<Then> list_functions(Connection& connection);
Task<Then> show_function(Connection& connection);
Task<Then> show_model(Connection& connection);
Task<Then> show_model_ready(Connection& connection);
Task<Then> list_devices(Connection& connection);
Task<Then> show_counters(Connection& connection);

// infer.cc: runs a call.
Task<Then> infer(Connection& connection);

// deploy.cc: these change functions, and wait for the disk. `deploy` reads the tar of a folder, `change_settings` an
// object of JSON.
Task<Then> deploy(Connection& connection);
Task<Then> change_settings(Connection& connection);
Task<Then> remove_function(Connection& connection);
Task<Then> roll_back(Connection& connection);
Task<Then> show_history(Connection& connection);

// objects.cc. `put_object` reads the bytes of the object.
Task<Then> put_object(Connection& connection);
Task<Then> list_objects(Connection& connection);
Task<Then> send_object(Connection& connection);
Task<Then> remove_object(Connection& connection);

// requests.cc
Task<Then> list_requests(Connection& connection);
Task<Then> cancel_request(Connection& connection);

// views.cc
Task<Then> tell_why(Connection& connection);
Task<Then> show_memory(Connection& connection);
/// Makes a function ready for the time of a lease.
Task<Then> keep_function(Connection& connection);
/// Ends the lease of a function.
Task<Then> release_function(Connection& connection);

// accounts.cc, profile.cc
Task<Then> show_accounts(Connection& connection);
Task<Then> show_profile(Connection& connection);

// trace.cc. `show_trace` answers after the seconds that the query asks for.
Task<Then> show_trace(Connection& connection);
Task<Then> end_trace(Connection& connection);

}  // namespace quern::server
