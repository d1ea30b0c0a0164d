// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon_waits.h"

#include <future>

namespace quern::daemon {
namespace {

Status write_all(Upload& upload, Bytes bytes) {
  std::promise<Result<Bytes>> written;
  upload.write(std::move(bytes), [&](Result<Bytes> piece) { written.set_value(std::move(piece)); });
  QUERN_TRY(written.get_future().get());
  return {};
}

}  // namespace

Result<Deployed> deploy_and_wait(Daemon& daemon, const Tenant& tenant, const std::string& name, Bytes tar) {
  QUERN_TRY(auto upload, daemon.begin_deploy(tenant, tar.size()));
  QUERN_TRY(write_all(*upload, std::move(tar)));
  std::promise<Result<Deployed>> deployed;
  daemon.deploy(tenant, "", name, std::move(upload), [&](Result<Deployed> end) { deployed.set_value(std::move(end)); });
  return deployed.get_future().get();
}

Result<ObjectStatus> put_and_wait(Daemon& daemon, const Tenant& tenant, Bytes bytes) {
  QUERN_TRY(auto upload, daemon.begin_object(tenant, bytes.size()));
  QUERN_TRY(write_all(*upload, std::move(bytes)));
  std::promise<Result<ObjectStatus>> stored;
  daemon.put_object(tenant, std::move(upload), [&](Result<ObjectStatus> end) { stored.set_value(std::move(end)); });
  return stored.get_future().get();
}

}  // namespace quern::daemon
