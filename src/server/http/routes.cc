// SPDX-License-Identifier: Apache-2.0
#include "server/http/routes.h"

#include "base/units.h"
#include "server/http/handlers.h"

namespace quern::server {

std::span<const RouteRow> route_table() {
  using enum Verb;
  using enum Caller;
  using E = Endpoint;
  constexpr BodyRule kNoBody, kCallBody{"call"}, kTarBody{"tar"}, kObjectBody{"object"};
  constexpr BodyRule kSettingsBody{"settings", 64 * kKiB};
  static constexpr RouteRow kRows[] = {
      {E::kServer, kRead, "/v2", kTenant, kNoBody, show_server, "The server"},
      {E::kLive, kRead, "/v2/health/live", kAnyone, kNoBody, show_live, "The server answers"},
      {E::kReady, kRead, "/v2/health/ready", kAnyone, kNoBody, show_ready, "At least one device is up"},
      {E::kModel, kRead, "/v2/models/{name}", kTenant, kNoBody, show_model, "Inputs and outputs of a function"},
      {E::kModelReady, kRead, "/v2/models/{name}/ready", kTenant, kNoBody, show_model_ready,
       "The function is there and a device is up"},
      {E::kInfer, kPost, "/v2/models/{name}/infer", kTenant, kCallBody, infer, "Call a function"},
      {E::kModel, kRead, "/v2/models/{name}/versions/{version}", kTenant, kNoBody, show_model, "As without a version"},
      {E::kModelReady, kRead, "/v2/models/{name}/versions/{version}/ready", kTenant, kNoBody, show_model_ready,
       "As without a version"},
      {E::kInfer, kPost, "/v2/models/{name}/versions/{version}/infer", kTenant, kCallBody, infer,
       "As without a version"},
      {E::kFunctions, kRead, "/v1/functions", kTenant, kNoBody, list_functions, "The functions of this tenant"},
      {E::kFunction, kRead, "/v1/functions/{name}", kTenant, kNoBody, show_function, "A function in detail"},
      {E::kFunction, kPut, "/v1/functions/{name}", kTenant, kTarBody, deploy, "Deploy a function"},
      {E::kFunction, kPatch, "/v1/functions/{name}", kTenant, kSettingsBody, change_settings,
       "Change settings in place"},
      {E::kFunction, kDelete, "/v1/functions/{name}", kTenant, kNoBody, remove_function,
       "Remove a function with all its versions"},
      {E::kHistory, kRead, "/v1/functions/{name}/history", kTenant, kNoBody, show_history,
       "The stored versions of a function, and what was done to it"},
      {E::kRollback, kPost, "/v1/functions/{name}/rollback", kTenant, kNoBody, roll_back,
       "Make an older version current"},
      {E::kKeep, kPost, "/v1/functions/{name}/keep", kTenant, kNoBody, keep_function,
       "Keep a function ready for some time"},
      {E::kKeep, kDelete, "/v1/functions/{name}/keep", kTenant, kNoBody, release_function,
       "Keep a function ready no longer than its settings say"},
      {E::kProfile, kRead, "/v1/functions/{name}/profile", kTenant, kNoBody, show_profile,
       "How long the kernels and gaps of a function take"},
      {E::kRequests, kRead, "/v1/requests", kTenant, kNoBody, list_requests, "The requests of this tenant"},
      {E::kRequest, kRead, "/v1/requests/{id}", kTenant, kNoBody, tell_why,
       "What became of a request, and what it waited for"},
      {E::kRequest, kDelete, "/v1/requests/{id}", kTenant, kNoBody, cancel_request, "Cancel a request"},
      {E::kObjects, kRead, "/v1/objects", kTenant, kNoBody, list_objects, "The objects of this tenant"},
      {E::kObjects, kPut, "/v1/objects", kTenant, kObjectBody, put_object, "Store bytes as an object"},
      {E::kObject, kRead, "/v1/objects/{id}", kTenant, kNoBody, send_object, "The bytes of an object"},
      {E::kObject, kDelete, "/v1/objects/{id}", kTenant, kNoBody, remove_object, "Remove an object"},
      {E::kDevices, kRead, "/v1/devices", kTenant, kNoBody, list_devices, "The devices"},
      {E::kCounters, kRead, "/v1/counters", kTenant, kNoBody, show_counters,
       "Counters since the start, and where the time of calls went"},
      {E::kMemory, kRead, "/v1/memory", kTenant, kNoBody, show_memory,
       "What is in the memory of the devices and of the host"},
      {E::kTrace, kGet, "/v1/trace", kTenant, kNoBody, show_trace, "What happens on the devices for some seconds"},
      {E::kTrace, kDelete, "/v1/trace", kTenant, kNoBody, end_trace,
       "Ends the trace of this tenant sooner; who waits for it gets what there is"},
      {E::kAccounts, kRead, "/v1/accounts", kTenant, kNoBody, show_accounts,
       "What this tenant used since the server started, and what its requests waited for"},
  };
  return kRows;
}

}  // namespace quern::server
