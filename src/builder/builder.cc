// SPDX-License-Identifier: Apache-2.0
#include "builder/builder.h"

#include <fmt/format.h>

#include "function/includes.h"
#include "ipc/channel.h"
#include "os/env.h"
#include "os/event.h"
#include "os/file.h"
#include "os/process.h"
#include "os/sandbox.h"
#include "os/shared_memory.h"

namespace quern::builder {
namespace {

struct Product {
  std::string build_key;
  Bytes binary;
  Bytes signatures;
};

char letter_of(hal::AddressSpace space) {
  switch (space) {
    case hal::AddressSpace::kGlobal:
      return 'g';
    case hal::AddressSpace::kConstant:
      return 'c';
    case hal::AddressSpace::kLocal:
      return 'l';
    case hal::AddressSpace::kPrivate:
      break;
  }
  return 'p';
}

char letter_of(hal::Access access) {
  switch (access) {
    case hal::Access::kUnused:
      return '-';
    case hal::Access::kRead:
      return 'r';
    case hal::Access::kWritten:
      return 'w';
    case hal::Access::kReadWritten:
      return 'b';
    case hal::Access::kUnknown:
      break;
  }
  return '?';
}

Bytes signatures_of(const hal::Program& program) {
  std::vector<Signature> signatures;
  for (const hal::EntryInfo& entry : program.entries()) {
    Signature signature;
    signature.entry = entry.name;
    signature.required_local = entry.required_group_size;
    signature.local_memory_bytes = entry.local_memory_bytes;
    signature.unsliceable = entry.unsliceable;
    for (const hal::ArgumentInfo& argument : entry.arguments)
      signature.arguments.push_back(
          {argument.name, argument.type, letter_of(argument.space), argument.is_const, letter_of(argument.access)});
    signatures.push_back(std::move(signature));
  }
  return ipc::encode(signatures);
}

Result<ipc::BuildFrame> receive_build(ipc::Channel& channel) {
  os::wait_readable(channel.fd(), Duration::forever());
  QUERN_TRY(ipc::Received received, channel.receive());
  const auto* build = std::get_if<ipc::Build>(&received.frame);
  if (!build || received.fds.size() != 1) return invalid("the first frame is not a build");
  QUERN_TRY(os::check_sealed(received.fds[0], build->size_bytes));
  QUERN_TRY(const os::Mapping memory, os::map(received.fds[0], build->size_bytes, false));
  return ipc::decode_build(memory.bytes());
}

// The daemon has erased the comments of each file and has checked its includes already. The builder does both again, on
// the text that its compiler gets: several files in one, exactly as they are compiled.
Result<std::string> checked_text(const std::string& name, const std::string& source) {
  std::string text = text_to_compile(source);
  const auto problems = check_compiled_text(text);
  if (!problems.empty()) return invalid(fmt::format("{}:{}: {}", name, problems[0].line, problems[0].text));
  return text;
}

// Names come from a tar that was read with care; a builder takes nobody's word for it.
Status write_header(const std::string& folder, const std::string& name, const std::string& source) {
  if (!is_header_name(name) || name[0] == '/' || name.find("..") != std::string::npos)
    return invalid("header " + name + ": is no name inside the function's folder");
  QUERN_TRY(const std::string text, checked_text(name, source));
  const std::string path = folder + "/" + name;
  QUERN_TRY(os::make_folders(path.substr(0, path.rfind('/')), 0700));
  return os::write_file(path, as_bytes_of(text));
}

// Files that PoCL and LLVM open (Debian 12, PoCL 3.1): libraries, PoCL's headers, descriptions of processors and
// memory. Another vendor's library may need more; what is added here can be read by every program that is compiled.
const std::vector<std::string> kReadable = {"/lib",
                                            "/lib32",
                                            "/lib64",
                                            "/usr/lib",
                                            "/usr/lib32",
                                            "/usr/lib64",
                                            "/usr/libexec",
                                            "/usr/local/lib",
                                            "/usr/share/pocl",
                                            "/etc/OpenCL",
                                            "/etc/ld.so.cache",
                                            "/etc/ld.so.preload",
                                            "/proc/self",
                                            "/proc/cpuinfo",
                                            "/proc/meminfo",
                                            "/proc/sys/vm/overcommit_memory",
                                            "/sys/devices",
                                            "/sys/bus",
                                            "/sys/fs/cgroup",
                                            "/sys/kernel/mm",
                                            "/dev/null"};
// The linker, and the loader of what it is linked with. Whatever is executed is confined as well.
const std::vector<std::string> kExecutable = {"/bin", "/lib", "/lib64", "/usr/bin", "/usr/lib", "/usr/lib64"};

/// From here on nothing but this folder and what a compiler needs can be read. `headers` is in it; `library` is the
/// operator's, with what lies beside it.
Status confine(const std::string& folder, const std::string& headers, const std::string& library) {
  QUERN_TRY(os::make_folders(headers, 0700));
  QUERN_TRY(os::work_in(headers));
  std::vector<std::string> readable = kReadable;
  for (std::string& path : os::vendor_paths()) readable.push_back(std::move(path));
  if (!library.empty()) readable.push_back(library.substr(0, library.rfind('/')));
  const Status confined = os::confine_files({readable, kExecutable, {folder, "/dev/null"}});
  return !confined.ok() && confined.error().code == ErrorCode::kUnsupported ? Status() : confined;
}

Result<Product> compile(const ipc::BuildFrame& frame, const CreateDriver& create_driver) {
  const std::string folder = frame.device.cache_folder + "/headers";
  QUERN_TRY(confine(frame.device.cache_folder, folder, frame.device.library));
  hal::DeviceOptions options;
  options.platform = frame.device.platform;
  options.library = frame.device.library;
  options.index = frame.device.index;
  options.cores.assign(frame.device.cores.begin(), frame.device.cores.end());
  options.cache_folder = frame.device.cache_folder;
  options.group_sizes.assign(frame.group_sizes.begin(), frame.group_sizes.end());
  QUERN_TRY(auto driver, create_driver(frame.device.driver));
  QUERN_TRY(auto device, driver->open(options));
  hal::Source source;
  QUERN_TRY(source.text, checked_text("program", frame.text));
  source.options = frame.options;
  if (!frame.headers.empty()) {
    for (const auto& [name, text] : frame.headers) QUERN_TRY(write_header(folder, name, text));
    source.options += (source.options.empty() ? "-I" : " -I") + folder;
  }
  source.group_sizes.assign(frame.group_sizes.begin(), frame.group_sizes.end());
  QUERN_TRY(auto program, device->build(source));
  Product product;
  product.build_key = device->caps().build_key;
  QUERN_TRY(product.binary, program->binary());
  product.signatures = signatures_of(*program);
  return product;
}

Status answer(ipc::Channel& channel, const Result<Product>& product) {
  ipc::Built built;
  built.ok = product.ok();
  std::vector<os::Fd> memories;
  const Bytes none(1);  // a memory has at least one byte
  const auto details =
      product.ok() ? std::span<const std::byte>(product->signatures) : as_bytes_of(product.error().text);
  if (product.ok()) {
    built.build_key = product->build_key;
    built.size_bytes = product->binary.size();
    QUERN_TRY(os::Fd binary, os::immutable_copy("quern-binary", product->binary));
    memories.push_back(std::move(binary));
  } else {
    built.code = product.error().code;
  }
  built.details_bytes = details.size();
  QUERN_TRY(os::Fd memory, os::immutable_copy("quern-details", details.empty() ? none : details));
  memories.push_back(std::move(memory));
  std::vector<int> fds;
  for (const os::Fd& fd : memories) fds.push_back(fd.get());
  return channel.send(built, fds);
}

}  // namespace

int run(os::Fd socket, const CreateDriver& create_driver) {
  ipc::Channel channel(std::move(socket));
  auto frame = receive_build(channel);
  if (!frame.ok()) return 1;
  return answer(channel, compile(*frame, create_driver)).ok() ? 0 : 1;
}

}  // namespace quern::builder
