// SPDX-License-Identifier: Apache-2.0
#include "base/fuzz_main.h"
#include "sim/model_file.h"
#include "sim/trace.h"

using namespace quern;

// The three readers of files that people write or download: each takes what it can and says what it cannot.
void fuzz_one(std::span<const std::byte> input) {
  const std::string_view text = as_text(input);
  const auto devices = sim::parse_devices(text, "devices.yaml");
  QUERN_CHECK(devices.ok() ? !devices->devices.empty() : !devices.error().text.empty(),
              "nothing is refused without a reason");
  const auto read = [&](const std::string&) -> Result<std::string> { return std::string(text); };
  const auto workload = sim::parse_workload(text, "workload.yaml", read);
  QUERN_CHECK(workload.ok() || !workload.error().text.empty(), "nothing is refused without a reason");
  sim::Model model;
  (void)sim::add_trace(text, {}, model);
}

FuzzPlan fuzz_plan() {
  FuzzPlan plan;
  plan.rounds = 5'000;
  plan.seeds = {
      "devices:\n  - {name: a, count: 4, memory: 16GiB, copy_bandwidth: 12GiB/s, context: 300ms}\n",
      "devices: [{name: a, framework: 4s, in_place: true}]\n"
      "host: {memory: 64GiB, disk_bandwidth: 2GiB/s, disk_latency: 1ms}\npool: 2\n",
      "tenants: [{name: t, weight: 2, copies: 3, limits: {in_flight: 4}}]\n"
      "objects: [{name: o, bytes: 1GiB, tenant: t}]\n"
      "functions: [{name: f, tenant: t, device_time: 8ms, spread: 0.1, objects: [o], timeout: 1s, keep_warm: host}]\n"
      "loads: [{function: f, closed: {clients: 2, think: 1ms}}]\nlength: 10s\nkeep_alive: 5s\n",
      "tenants: [{name: t}]\nfunctions: [{name: f, tenant: t, device_time: 1ms}]\n"
      "loads: [{function: f, burst: {per_second: 2, burst: 10}}, {trace: {file: a.csv, time_scale: 0.5}}]\n",
      "tenants: [{name: t, limits: {priority: 3}}]\nfunctions: [{name: f, tenant: t, device_time: 1ms, priority: 9}]\n"
      "loads: [{function: f, closed: {}}]\n"
      "programs: [{name: p, device: 2, priority: 0, kernels: 4, kernel: 1ms, gap: 2ms, jitter: 0.1, sliceable: true}]\n"
      "policy: {dispatch: strict}\n",
      "devices: [{name: a, units: 80, sharing: queue, interference: 0.1, gate: 6us, drift: 0.001},\n"
      "          {name: b, sharing: slices, time_slice: 2ms}]\n",
      "tenants: [{name: t}]\n"
      "functions: [{name: f, tenant: t, device_time: 1ms, kernels: [1ms, 2ms], sliceable: false,\n"
      "             quota: {time: {request: 0.2, limit: 0.5}, units: 0.5}, speeds: [{share: 0.5, speed: 0.9}]}]\n"
      "programs: [{name: p, sequence: [{time: 1ms, gap: 2ms}], think: 1ms, quota: {units: 0.1}}]\n",
      "gmt_create,predict_type,predict_status,exec_time_seconds,groupId,checkpoint_model_version_id\n"
      "2024-11-15 16:57:50,TXT_2_IMG,SUCCEED,32.0,G0,M0\n2024-11-15 18:16:14,A,B,43.0,G1,M1\n"};
  plan.words = {"copies: 1000000",
                "99999999999999999999",
                "-1",
                "1e308",
                "nan",
                "GiB",
                "poisson:",
                "2024-02-30 25:61:61",
                "{",
                "}",
                "[",
                "]",
                ":",
                ",",
                "\n",
                "&a",
                "*a"};
  return plan;
}
