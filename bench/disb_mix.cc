// SPDX-License-Identifier: Apache-2.0
#include "bench/disb_mix.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <exception>
#include <map>
#include <set>
#include <utility>

namespace quern::bench {
namespace {

namespace json = boost::json;

// Latencies: benchmarks/results/trt.D.json of SJTU-IPADS/disb (standAloneTotalLatency of the _rt clients). Kernels:
// REEF's graphs of ResNet-152 and DenseNet, and half of its BERT's, which has twice the layers of DistilBERT; of VGG-19
// and Inception v3 a kernel for every convolution, pool, concatenation and product.
constexpr std::array<DisbModel, 5> kModels{{{"vgg19-imagenet", 2.79, 24},
                                            {"resnet152-imagenet", 4.19, 207},
                                            {"densenet201-imagenet", 7.49, 207},
                                            {"inceptionv3-imagenet", 2.92, 120},
                                            {"distilbert", 1.19, 103}}};

constexpr size_t kLongestId = 62;

bool is_name(std::string_view id) {
  const auto is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !id.empty() && id.size() <= kLongestId && is_plain(id[0]) &&
         std::all_of(id.begin(), id.end(), [&](char c) { return is_plain(c) || c == '.' || c == '_' || c == '-'; });
}

std::string text_of(const json::value& value) { return std::string(std::string_view(value.as_string())); }

Result<DisbClient> client_of(const json::value& task) {
  DisbClient client;
  client.id = text_of(task.at("id"));
  if (!is_name(client.id))
    return invalid("a client's id is no name of a function; write small letters, digits, '.', '_' and '-'");
  client.is_urgent = client.id.ends_with("_rt");
  if (!client.is_urgent && !client.id.ends_with("_be"))
    return invalid(fmt::format("client {}: ends neither in _rt nor in _be; say in what hurry it is", client.id));
  client.model = text_of(task.at("client").at("model_name"));
  const json::value& load = task.at("load");
  const std::string type = text_of(load.at("type"));
  // DISB writes `periodic`, and `uniform` where it describes it.
  if (type == "periodic" || type == "uniform")
    client.load = DisbClient::Load::kPeriodic;
  else if (type == "poisson")
    client.load = DisbClient::Load::kPoisson;
  else if (type == "continuous")
    return client;
  else
    return invalid(fmt::format("client {}: load is none of periodic, uniform, poisson and continuous", client.id));
  client.per_second = load.at("frequency").to_number<double>();
  if (!(client.per_second > 0) || client.per_second > kMostDisbPerSecond)
    return invalid(fmt::format("client {}: frequency is {}; it is above 0 and at most {}", client.id, client.per_second,
                               kMostDisbPerSecond));
  return client;
}

}  // namespace

// Whatever is missing or of another shape makes boost throw; none of it leaves this function.
Result<DisbMix> parse_disb(const std::string& name, std::string_view text) try {
  const json::value root = json::parse(json::string_view(text.data(), text.size()));
  DisbMix mix;
  mix.name = name;
  std::set<std::string> ids;
  const json::array& tasks = root.at("tasks").as_array();
  if (tasks.empty() || tasks.size() > kMostDisbClients)
    return invalid(
        fmt::format("mix {}: has {} clients; at least 1 and at most {}", mix.name, tasks.size(), kMostDisbClients));
  for (const json::value& task : tasks) {
    auto client = client_of(task);
    if (!client.ok()) return invalid(fmt::format("mix {}: {}", mix.name, client.error().text));
    if (!ids.insert(client->id).second)
      return invalid(fmt::format("mix {}: client {}: is there twice", mix.name, client->id));
    mix.clients.push_back(*std::move(client));
  }
  return mix;
} catch (const std::exception& problem) {
  return invalid(fmt::format("mix {}: {}", name, problem.what()));
}

Result<DisbModel> disb_model(std::string_view name) {
  for (const DisbModel& model : kModels)
    if (model.name == name) return model;
  return not_found(fmt::format("model {}: is none of DISB's; its cost is not known", name));
}

Result<std::vector<Duration>> disb_first_sends(const DisbMix& mix, double scale) {
  std::map<double, double> taken_ms;  // by frequency
  std::vector<Duration> first;
  for (const DisbClient& client : mix.clients) {
    first.push_back({0});
    if (client.load != DisbClient::Load::kPeriodic) continue;
    QUERN_TRY(const DisbModel model, disb_model(client.model));
    double& before_ms = taken_ms[client.per_second];
    first.back() = {static_cast<int64_t>(before_ms * scale * 1e6)};
    before_ms += model.alone_ms;
  }
  return first;
}

DisbClock::DisbClock(const DisbClient& client, Duration first, double scale, uint64_t seed)
    : load_(client.load),
      mean_ns_(client.load == DisbClient::Load::kContinuous ? 0 : scale * 1e9 / client.per_second),
      prng_(seed),
      due_(first) {}

Duration DisbClock::interval() {
  // Of 1 - u, which is never 0.
  const double part = load_ == DisbClient::Load::kPoisson ? -std::log(1 - prng_.uniform()) : 1;
  return {static_cast<int64_t>(mean_ns_ * part)};
}

Duration DisbClock::next(Duration now) {
  if (load_ == DisbClient::Load::kContinuous) return now;
  Duration following = due_ + interval();
  while (following < now) {
    due_ = following;
    following = following + interval();
    ++given_up_;
  }
  return std::exchange(due_, following);
}

}  // namespace quern::bench
