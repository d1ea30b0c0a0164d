// SPDX-License-Identifier: Apache-2.0
#include "sim/model_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "base/units.h"
#include "sched/policy/table.h"

namespace quern::sim {
namespace {

Result<std::string> no_files(const std::string& path) { return not_found("there is no file " + path); }

std::string mistakes_of_devices(std::string_view text) {
  const auto devices = parse_devices(text, "d.yaml");
  return devices.ok() ? "" : devices.error().text;
}
std::string mistakes_of_workload(std::string_view text, const ReadFile& read_file = no_files) {
  const auto workload = parse_workload(text, "w.yaml", read_file);
  return workload.ok() ? "" : workload.error().text;
}

TEST(ModelFile, ReadsDevices) {
  const auto devices = parse_devices(R"(
devices:
  - name: v100
    count: 4
    units: 80
    memory: 16GiB
    context_memory: 300MiB
    copy_bandwidth: 12GiB/s
    context: 300ms
    framework: 4.5s
    load_latency: 30us
    launch: 20us
    answer: 60us
    speed: 1.5
    in_place: true
  - {name: other}
host: {memory: 64GiB, disk_bandwidth: 2GiB/s, disk_latency: 100us}
pool: 2
)",
                                     "d.yaml");
  ASSERT_TRUE(devices.ok()) << devices.error().text;
  ASSERT_EQ(devices->devices.size(), 2U);
  const DeviceModel& device = devices->devices.front();
  EXPECT_EQ(device.name, "v100");
  EXPECT_EQ(device.count, 4U);
  EXPECT_EQ(device.units, 80U);
  EXPECT_EQ(device.memory_bytes, 16 * kGiB);
  EXPECT_EQ(device.context_bytes, 300 * kMiB);
  EXPECT_EQ(device.copy_bytes_per_second, 12 * kGiB);
  EXPECT_EQ(device.context, Duration::millis(300));
  EXPECT_EQ(device.load_latency, Duration::micros(30));
  EXPECT_EQ(device.launch, Duration::micros(20));
  EXPECT_EQ(device.answer, Duration::micros(60));
  EXPECT_EQ(device.speed, 1.5);
  EXPECT_EQ(device.framework, Duration::millis(4500));
  EXPECT_TRUE(device.in_place);
  EXPECT_EQ(devices->devices.back().count, 1U);
  EXPECT_FALSE(devices->devices.back().in_place);
  ASSERT_TRUE(devices->host && devices->pool);
  EXPECT_EQ(devices->host->memory_bytes, 64 * kGiB);
  EXPECT_EQ(devices->host->disk_bytes_per_second, 2 * kGiB);
  EXPECT_EQ(devices->host->disk_latency, Duration::micros(100));
  EXPECT_EQ(devices->pool, 2U);
}

TEST(ModelFile, AMachineNeedNotSayMoreThanItsDevices) {
  const auto devices = parse_devices("devices: [{name: a}]", "d.yaml");
  ASSERT_TRUE(devices.ok()) << devices.error().text;
  EXPECT_FALSE(devices->host);
  EXPECT_FALSE(devices->pool);
  EXPECT_EQ(mistakes_of_devices("devices: [{name: a, in_place: maybe}]\nhost: {disk_bandwidth: 2GiB}\npool: 65\n"),
            "d.yaml:1:31: error: device a: in_place is 'maybe'; write true or false\n"
            "d.yaml:2:7: error: host has no memory; write memory: …\n"
            "d.yaml:2:24: error: host: disk_bandwidth is '2GiB'; write a size by time, as in 12GiB/s\n"
            "d.yaml:3:7: error: a file of devices: pool is '65'; write a whole number from 0 to 64");
}

TEST(ModelFile, TellsAllMistakesOfDevicesAtOnce) {
  EXPECT_EQ(mistakes_of_devices("devices:\n"
                                "  - {name: A!, memroy: 3, count: 0}\n"
                                "  - {name: b, copy_bandwidth: 12GiB, speed: fast, context: 5}\n"
                                "  - {name: b, memory: [1]}\n"
                                "  - 7\n"),
            "d.yaml:2:12: error: device: name is 'A!'; use a-z, 0-9, '.', '_', '-', at most 63\n"
            "d.yaml:2:16: error: device has no key 'memroy'; did you mean 'memory'?; known are name, count, units, "
            "in_halves, memory, context_memory, copy_bandwidth, context, framework, load_latency, launch, answer, "
            "speed, in_place, classes, sharing, time_slice, interference, gate, drift\n"
            "d.yaml:2:34: error: device: count is '0'; write a whole number from 1 to 100000\n"
            "d.yaml:3:31: error: device b: copy_bandwidth is '12GiB'; write a size by time, as in 12GiB/s\n"
            "d.yaml:3:45: error: device b: speed is 'fast'; write a number from 0.001 to 1000000\n"
            "d.yaml:3:60: error: device b: context is '5'; write a length of time, as in 250ms\n"
            "d.yaml:4:12: error: device: name 'b' is given twice; give another\n"
            "d.yaml:4:23: error: device b: memory is a list; write one value\n"
            "d.yaml:5:5: error: device is a single value; write keys and values");
  EXPECT_EQ(mistakes_of_devices("devices: []"),
            "d.yaml:1:1: error: there is no device; write devices: [{name: …, memory: 16GiB}]");
  EXPECT_TRUE(mistakes_of_devices("devices: [{").starts_with("d.yaml:1:"));
  EXPECT_TRUE(mistakes_of_devices("devices: [{name: a, count: 90000}, {name: b, count: 90000}]")
                  .starts_with("d.yaml:1:1: error: 180000 devices; at most 100000"));
}

constexpr std::string_view kWorkload = R"(
tenants:
  - {name: shop, weight: 3, limits: {in_flight: 4, queued: 100, memory: 2GiB, priority: 2}}
  - {name: user, copies: 3, domain: shared}
objects:
  - {name: common, bytes: 1GiB}
  - {name: own, bytes: 5MiB, tenant: user}
functions:
  - {name: infer, tenant: user, device_time: 5ms, spread: 0.25, memory: 1MiB, objects: [common, own], timeout: 2s}
  - {name: rank, tenant: shop, device_time: 1ms, objects: [common], device_limit: 10ms, priority: 1, keep_warm: host}
loads:
  - {function: infer, closed: {clients: 4, think: 10ms}}
  - {function: rank, poisson: {per_second: 12.5}}
  - {function: rank, uniform: {per_second: 2}}
  - {function: rank, burst: {per_second: 2, burst: 8}}
  - {function: rank, trace: {times: [2s, 1s]}}
programs:
  - {name: render, device: 3, priority: 0, kernels: 4, kernel: 500us, gap: 2ms, jitter: 0.1, sliceable: false}
  - {name: mine, kernel: 1ms, gap: 5ms}
length: 20s
policy: kaas
keep_alive: 30s
rent_second: 50s
faults: {executor_loss: 0.5, failed_fetch: 2, until: 5s}
)";

TEST(ModelFile, ReadsAWorkloadAndCopiesTenants) {
  const auto workload = parse_workload(kWorkload, "w.yaml", no_files);
  ASSERT_TRUE(workload.ok()) << workload.error().text;
  const Model& model = workload->model;
  ASSERT_EQ(model.tenants.size(), 4U);
  EXPECT_EQ(model.tenants[0].name, "shop");
  EXPECT_EQ(model.tenants[0].weight, 3U);
  EXPECT_EQ(model.tenants[0].domain, 0U);
  EXPECT_EQ(model.tenants[0].limits, (sched::Limits{4, 100, 2 * kGiB, 2}));
  EXPECT_EQ(model.tenants[1].name, "user-1");
  EXPECT_EQ(model.tenants[3].name, "user-3");
  EXPECT_EQ(model.tenants[1].domain, model.tenants[3].domain);
  EXPECT_NE(model.tenants[1].domain, 0U);
  ASSERT_EQ(model.objects.size(), 4U);  // the common one, and one for each user
  ASSERT_EQ(model.functions.size(), 4U);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(model.functions[i].tenant, 1 + i);
    EXPECT_EQ(model.functions[i].objects, (std::vector<uint32_t>{0, 1 + i}));
    EXPECT_EQ(model.functions[i].device_time, Duration::millis(5));
    EXPECT_EQ(model.functions[i].spread, 0.25);
    EXPECT_EQ(model.functions[i].timeout, Duration::seconds(2));
    EXPECT_EQ(model.loads[i].function, i);
    EXPECT_EQ(model.loads[i].clients, 4U);
    EXPECT_EQ(model.loads[i].think, Duration::millis(10));
  }
  EXPECT_EQ(model.functions[3].device_limit, Duration::millis(10));
  EXPECT_EQ(model.functions[3].priority, 1);
  EXPECT_EQ(model.functions[3].keep_warm, sched::Stage::kHost);
  EXPECT_EQ(model.functions[0].keep_warm, sched::Stage::kNothing);
  EXPECT_EQ(model.functions[3].timeout, Duration::forever());
  ASSERT_EQ(model.loads.size(), 7U);
  EXPECT_EQ(model.loads[3].kind, LoadModel::Kind::kPoisson);
  EXPECT_EQ(model.loads[3].per_second, 12.5);
  EXPECT_EQ(model.loads[4].kind, LoadModel::Kind::kUniform);
  EXPECT_EQ(model.loads[5].kind, LoadModel::Kind::kBurst);
  EXPECT_EQ(model.loads[5].burst, 8U);
  EXPECT_EQ(model.loads[6].times, (std::vector<Time>{Time{1'000'000'000}, Time{2'000'000'000}}));
  ASSERT_EQ(model.programs.size(), 2U);
  EXPECT_EQ(model.programs[0].name, "render");
  EXPECT_EQ(model.programs[0].device, 2U);
  EXPECT_EQ(model.programs[0].priority, 0);
  EXPECT_EQ(model.programs[0].kernels, 4U);
  EXPECT_EQ(model.programs[0].kernel, Duration::micros(500));
  EXPECT_EQ(model.programs[0].gap, Duration::millis(2));
  EXPECT_EQ(model.programs[0].jitter, 0.1);
  EXPECT_FALSE(model.programs[0].sliceable);
  EXPECT_EQ(model.programs[1].device, 0U);
  EXPECT_EQ(model.programs[1].priority, 5);
  EXPECT_TRUE(model.programs[1].sliceable);
  EXPECT_EQ(model.length, Duration::seconds(20));
  EXPECT_EQ(model.config.policy, *sched::preset("kaas"));
  EXPECT_EQ(model.config.keep_alive, Duration::seconds(30));
  EXPECT_EQ(model.config.rent_second, Duration::seconds(50));
  EXPECT_EQ(model.faults.executor_loss, 0.5);
  EXPECT_EQ(model.faults.failed_fetch, 2);
  EXPECT_EQ(model.faults.until, Duration::seconds(5));
}

TEST(ModelFile, TellsAllMistakesOfAWorkloadAtOnce) {
  EXPECT_EQ(
      mistakes_of_workload("tenants: [{name: a}, {name: b}]\n"
                           "objects: [{name: x, bytes: 1GiB, tenant: a}, {name: y}]\n"
                           "functions:\n"
                           "  - {name: f, tenant: c, device_time: 1ms}\n"
                           "  - {name: g, tenant: b, objects: [x, xx, y, y]}\n"
                           "  - {name: h, tenant: a, device_time: 0ms}\n"
                           "loads:\n"
                           "  - {function: gg, closed: {}}\n"
                           "  - {function: g}\n"
                           "  - {function: g, closed: {}, poisson: {}}\n"
                           "  - {function: g, poisson: {}}\n"
                           "policy: kas\n"),
      "w.yaml:2:46: error: object y has no bytes; write bytes: …\n"
      "w.yaml:4:23: error: function f: there is no tenant 'c'; add it to tenants\n"
      "w.yaml:5:5: error: function g has no device_time; write device_time: …\n"
      "w.yaml:5:36: error: function g: object 'x' is of tenant 'a'; name one of 'b', or leave its tenant out\n"
      "w.yaml:5:39: error: function g: there is no object 'xx'; did you mean 'x'?\n"
      "w.yaml:5:46: error: function g: object 'y' is named twice; once is enough\n"
      "w.yaml:6:39: error: function h: device_time is '0ms'; write a length of time above 0, as in 250ms\n"
      "w.yaml:8:16: error: load: there is no function 'gg'; did you mean 'g'?\n"
      "w.yaml:9:5: error: load: has no kind; write one of closed, poisson, uniform, burst, trace\n"
      "w.yaml:10:40: error: load: has two kinds; write one of closed, poisson, uniform, burst, trace\n"
      "w.yaml:11:28: error: load: poisson has no per_second; write per_second: …\n"
      "w.yaml:12:9: error: policy: there is no 'kas'; did you mean 'kaas'?; known are " +
          [] {
            std::string known;
            for (const auto name : sched::presets()) known += (known.empty() ? "" : ", ") + std::string(name);
            return known;
          }());
  EXPECT_EQ(mistakes_of_workload("tenants: [{name: a}]"),
            "w.yaml:1:1: error: a workload without loads does nothing; write loads: [{function: …, closed: {clients: "
            "1}}]");
  EXPECT_EQ(mistakes_of_workload("[1]"), "w.yaml:1:1: error: a workload is a list; write keys and values");
}

TEST(ModelFile, ManyCopiesAreRefusedBeforeTheyAreMade) {
  EXPECT_NE(mistakes_of_workload("tenants: [{name: a, copies: 1000000}, {name: b, copies: 1000000}]")
                .find("tenant b would be number 2000000; at most 1000000 of a kind"),
            std::string::npos);
}

TEST(ModelFile, APolicyCanBeChosenPerPart) {
  const std::string base(kWorkload.substr(0, kWorkload.find("policy:")));
  const auto workload = parse_workload(
      base + "policy: {fairness: fifo, setup: in-turn, exit: never, dispatch: strict}\n", "w.yaml", no_files);
  ASSERT_TRUE(workload.ok()) << workload.error().text;
  EXPECT_EQ(workload->model.config.policy.fairness, "fifo");
  EXPECT_EQ(workload->model.config.policy.setup, "in-turn");
  EXPECT_EQ(workload->model.config.policy.exit, "never");
  EXPECT_EQ(workload->model.config.policy.dispatch, "strict");
  EXPECT_EQ(workload->model.config.policy.eviction, sched::Policy{}.eviction);
  EXPECT_NE(mistakes_of_workload(base + "policy: {eviction: lur}\n").find("did you mean 'lru'?"), std::string::npos);
  EXPECT_NE(mistakes_of_workload(base + "policy: {dispatch: fil}\n").find("did you mean 'fill'?"), std::string::npos);
  EXPECT_NE(
      mistakes_of_workload("tenants: [{name: a}]\nfunctions: [{name: f, tenant: a, device_time: 1ms, keep_warm: "
                           "contxt}]\nloads: [{function: f, closed: {}}]\n")
          .find(
              "function f: there is no keep_warm 'contxt'; did you mean 'context'?; known are nothing, context, host, "
              "hot"),
      std::string::npos);
}

TEST(ModelFile, TellsMistakesOfPrograms) {
  EXPECT_EQ(mistakes_of_workload("tenants: [{name: a}]\n"
                                 "functions: [{name: f, tenant: a, device_time: 1ms}]\n"
                                 "loads: [{function: f, closed: {}}]\n"
                                 "programs:\n"
                                 "  - {name: p, device: 0, kernel: 0ms}\n"
                                 "  - {name: p, gap: 1ms, kernel: 1ms, priority: 10}\n"),
            "w.yaml:5:5: error: program p has no gap; write gap: …\n"
            "w.yaml:5:23: error: program p: device is '0'; write a whole number from 1 to 100000\n"
            "w.yaml:5:34: error: program p: kernel is '0ms'; write a length of time above 0, as in 250ms\n"
            "w.yaml:6:12: error: program: name 'p' is given twice; give another\n"
            "w.yaml:6:48: error: program p: priority is '10'; write a whole number from 0 to 9");
}

TEST(ModelFile, ReadsDevicesThatKnowKernels) {
  const auto devices = parse_devices(
      "devices:\n"
      "  - {name: a, units: 80, sharing: queue, interference: 0.1, gate: 6us, drift: -0.001}\n"
      "  - {name: b, sharing: slices, time_slice: 1ms}\n"
      "  - {name: c, sharing: turns}\n",
      "d.yaml");
  ASSERT_TRUE(devices.ok()) << devices.error().text;
  const auto& all = devices->devices;
  EXPECT_EQ(all[0].sharing, DeviceModel::Sharing::kQueue);
  EXPECT_EQ(all[0].interference, 0.1);
  EXPECT_EQ(all[0].gate, Duration::micros(6));
  EXPECT_EQ(all[0].drift, -0.001);
  EXPECT_TRUE(all[0].has_kernels());
  EXPECT_EQ(all[1].sharing, DeviceModel::Sharing::kSlices);
  EXPECT_EQ(all[1].time_slice, Duration::millis(1));
  EXPECT_EQ(all[2].sharing, DeviceModel::Sharing::kTurns);
  EXPECT_FALSE(all[2].has_kernels());
  EXPECT_EQ(mistakes_of_devices("devices:\n"
                                "  - {name: a, sharing: slice, interference: -1}\n"
                                "  - {name: b, gate: 6us}\n"
                                "  - {name: c, sharing: slices, time_slice: 0ms}\n"),
            "d.yaml:2:24: error: device a: there is no sharing 'slice'; did you mean 'slices'?; known are turns, "
            "queue, slices\n"
            "d.yaml:2:45: error: device a: interference is '-1'; write a number from 0 to 100\n"
            "d.yaml:2:45: error: device a: interference means nothing where devices know no kernels; write sharing: "
            "queue, or slices, too\n"
            "d.yaml:3:21: error: device b: gate means nothing where devices know no kernels; write sharing: queue, or "
            "slices, too\n"
            "d.yaml:4:44: error: device c: time_slice is '0ms'; write a length of time above 0, as in 250ms");
}

TEST(ModelFile, ReadsQuotasKernelsAndSpeeds) {
  const auto workload = parse_workload(
      "tenants: [{name: a}]\n"
      "functions:\n"
      "  - name: f\n"
      "    tenant: a\n"
      "    device_time: 3ms\n"
      "    kernels: [1ms, 500us]\n"
      "    sliceable: false\n"
      "    quota: {time: {request: 0.2, limit: 0.555}, units: 0.25}\n"
      "    speeds: [{share: 0.1, speed: 0.5}, {share: 0.5, speed: 0.95}]\n"
      "programs:\n"
      "  - name: p\n"
      "    sequence: [{time: 1ms, gap: 2ms}, {time: 3ms}]\n"
      "    think: 5ms\n"
      "    quota: {units: 0.5}\n"
      "    speeds: [{share: 1, speed: 2}]\n",
      "w.yaml", no_files);
  ASSERT_TRUE(workload.ok()) << workload.error().text;
  const FunctionModel& function = workload->model.functions.at(0);
  EXPECT_EQ(function.kernels, (std::vector<Duration>{Duration::millis(1), Duration::micros(500)}));
  EXPECT_FALSE(function.sliceable);
  EXPECT_EQ(function.quota, (sched::Quota{200, 555, 250}));
  ASSERT_EQ(function.speeds.size(), 2U);
  EXPECT_EQ(function.speeds[0].share, 0.1);
  EXPECT_EQ(function.speeds[1].speed, 0.95);
  const ProgramModel& program = workload->model.programs.at(0);
  ASSERT_EQ(program.sequence.size(), 2U);
  EXPECT_EQ(program.sequence[0].time, Duration::millis(1));
  EXPECT_EQ(program.sequence[0].gap, Duration::millis(2));
  EXPECT_EQ(program.sequence[1].gap, Duration{0});
  EXPECT_EQ(program.think, Duration::millis(5));
  EXPECT_EQ(program.quota, (sched::Quota{0, 1000, 500}));
  EXPECT_EQ(program.speeds.size(), 1U);
  EXPECT_TRUE(workload->model.loads.empty());  // programs are enough
}

TEST(ModelFile, TellsMistakesOfQuotasKernelsAndSpeeds) {
  EXPECT_EQ(
      mistakes_of_workload("tenants: [{name: a}]\n"
                           "functions:\n"
                           "  - {name: f, tenant: a, device_time: 1ms, kernels: [0ms, [1]], quota: 0.5}\n"
                           "  - {name: g, tenant: a, device_time: 1ms, kernels: 1ms, quota: {time: {limt: 1}}}\n"
                           "  - {name: h, tenant: a, device_time: 1ms, quota: {time: {request: 0.5, limit: 0.4}}}\n"
                           "  - {name: i, tenant: a, device_time: 1ms, kernels: [], quota: {units: 1.5}}\n"
                           "  - {name: j, tenant: a, device_time: 1ms, speeds: [{share: 1, speed: 1}, {share: "
                           "0.5, speed: 1}, {speed: 1}]}\n"
                           "loads: [{function: f, closed: {}}]\n"
                           "programs:\n"
                           "  - {name: p, sequence: [{time: 0ms}, {gap: 1ms}], kernel: 1ms}\n"),
      "w.yaml:3:54: error: function f: kernels is '0ms'; write a length of time above 0, as in 250ms\n"
      "w.yaml:3:59: error: function f: kernels holds a list; write lengths of time, as in [1ms, 250us]\n"
      "w.yaml:3:72: error: function f: quota is a single value; write keys and values\n"
      "w.yaml:4:53: error: function g: kernels is a single value; write lengths of time, as in [1ms, 250us]\n"
      "w.yaml:4:73: error: function g: quota: time has no key 'limt'; did you mean 'limit'?; known are request, "
      "limit\n"
      "w.yaml:5:58: error: function h: quota: time: request is above limit; write a limit of at least as much\n"
      "w.yaml:6:53: error: function i: kernels is empty; write lengths of time, as in [1ms, 250us]\n"
      "w.yaml:6:72: error: function i: quota: units is '1.5'; write a number from 0.001 to 1\n"
      "w.yaml:7:75: error: function j: speeds: share 0.5 comes after 1; write the least share first\n"
      "w.yaml:7:99: error: function j: speeds has no share; write share: …\n"
      "w.yaml:7:99: error: function j: speeds: share 1 comes after 1; write the least share first\n"
      "w.yaml:10:33: error: program p: sequence: time is '0ms'; write a length of time above 0, as in 250ms\n"
      "w.yaml:10:39: error: program p: sequence has no time; write time: …\n"
      "w.yaml:10:60: error: program p: has a sequence and kernel; write one of both");
  EXPECT_NE(mistakes_of_workload("programs: [{name: p, sequence: []}]").find("sequence has no kernels"),
            std::string::npos);
}

TEST(ModelFile, LengthFollowsFromWhatIsGiven) {
  const std::string base = "tenants: [{name: a}]\nfunctions: [{name: f, tenant: a, device_time: 1ms}]\n";
  const auto length = [&](const std::string& rest) {
    const auto workload = parse_workload(base + rest, "w.yaml", no_files);
    EXPECT_TRUE(workload.ok()) << workload.error().text;
    return workload.ok() ? workload->model.length : Duration{-1};
  };
  const std::string closed = "loads: [{function: f, closed: {}}]\n";
  EXPECT_EQ(length(closed), Duration::seconds(10));
  EXPECT_EQ(length(closed + "requests: 5\n"), Duration::forever());
  EXPECT_EQ(length(closed + "requests: 5\nlength: 1s\n"), Duration::seconds(1));
  EXPECT_EQ(length("loads: [{function: f, trace: {times: [30s]}}]\n"), Duration{30'000'000'001});
  EXPECT_NE(mistakes_of_workload(base + closed + "requests: 5\nfaults: {hang: 1}\n").find("faults: has no end"),
            std::string::npos);
}

TEST(ModelFile, ATraceBringsItsOwnTenants) {
  const ReadFile files = [](const std::string& path) -> Result<std::string> {
    if (path != "calls.csv") return not_found("there is no file " + path);
    return std::string(
        "gmt_create,exec_time_seconds,groupId,checkpoint_model_version_id\n"
        "2024-01-01 00:00:00,1.0,G0,M0\n"
        "2024-01-01 00:01:40,1.0,G1,M0\n"
        "2024-01-01 00:01:41,,G1,M0\n");
  };
  const auto workload =
      parse_workload("loads: [{trace: {file: calls.csv, time_scale: 0.5, object_bytes: 2GiB}}]", "w.yaml", files);
  ASSERT_TRUE(workload.ok()) << workload.error().text;
  EXPECT_EQ(workload->model.tenants.size(), 2U);
  EXPECT_EQ(workload->model.objects.at(0).bytes, 2 * kGiB);
  EXPECT_EQ(workload->model.length, Duration{50'000'000'001});
  EXPECT_EQ(
      workload->notes,
      (std::vector<std::string>{"calls.csv: 1 of 3 rows became no calls; the first: line 4: exec_time_seconds '' is no "
                                "length of time above 0"}));
  EXPECT_EQ(mistakes_of_workload("loads: [{trace: {file: cals.csv}}]", files),
            "w.yaml:1:24: error: load: trace: there is no file cals.csv");
}

TEST(ModelFile, TheExamplesAreRead) {
  const auto text_of = [](const std::string& name) {
    std::stringstream all;
    all << std::ifstream("examples/simulate/" + name).rdbuf();
    return all.str();
  };
  for (const std::string name : {"v100x4.yaml", "cpu.yaml", "cold.yaml"})
    EXPECT_TRUE(parse_devices(text_of(name), name).ok()) << name;
  for (const std::string name : {"mixed.yaml", "tenants32.yaml", "cold-calls.yaml", "density.yaml", "urgent.yaml"})
    EXPECT_TRUE(parse_workload(text_of(name), name, no_files).ok()) << name;
}

}  // namespace
}  // namespace quern::sim
