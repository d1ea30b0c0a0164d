// SPDX-License-Identifier: Apache-2.0
#pragma once
// Boost.Asio as the server uses it, in one place: its sources include this and nothing of Asio beside it.

// Asio's fences are beyond ThreadSanitizer, which then refuses to compile; its mutexes do for what we post.
#if defined(__SANITIZE_THREAD__) && !defined(BOOST_ASIO_DISABLE_FENCED_BLOCK)
#define BOOST_ASIO_DISABLE_FENCED_BLOCK
#endif

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

// GCC 12 sees Asio's frames allocated by aligned_alloc and freed by their own operator delete, and takes that for a
// mistake (Boost 1.81, awaitable_frame_base). It warns where a coroutine ends, so this lasts to the end of the source.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace quern::server {

namespace asio = boost::asio;
/// Each event loop has one thread, so its plain executor will do: no strand, nothing type-erased.
using Executor = asio::io_context::executor_type;
using Socket = asio::basic_stream_socket<asio::ip::tcp, Executor>;
template <class T = void>
using Task = asio::awaitable<T, Executor>;
constexpr asio::use_awaitable_t<Executor> kAwait;

}  // namespace quern::server
