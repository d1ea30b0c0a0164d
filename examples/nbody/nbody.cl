// SPDX-License-Identifier: Apache-2.0
#pragma OPENCL FP_CONTRACT ON

__kernel void begin(__global const float4* restrict start_positions, __global const float4* restrict start_velocities,
                    __global float4* restrict positions, __global float4* restrict velocities, uint n) {
  const uint i = get_global_id(0);
  if (i >= n) return;
  positions[i] = start_positions[i];
  velocities[i] = start_velocities[i];
}

// A work-item moves eight bodies at once: a lane of a vector for each, and one loop over all bodies that attract them.
// Velocities first, then positions with the new velocities, so that energy does not drift.
__kernel void advance(__global const float4* restrict positions, __global float4* restrict velocities,
                      __global float4* restrict moved, uint n, float dt, float softening2) {
  const uint first = 8 * (uint)get_global_id(0);
  const uint count = min(n - first, 8u);
  float x[8], y[8], z[8];
  for (uint lane = 0; lane < 8; ++lane) {
    const float4 body = positions[min(first + lane, n - 1)];  // lanes past the end repeat the last body
    x[lane] = body.x;
    y[lane] = body.y;
    z[lane] = body.z;
  }
  const float8 x8 = vload8(0, x), y8 = vload8(0, y), z8 = vload8(0, z);
  float8 ax = 0, ay = 0, az = 0;
  for (uint k = 0; k < n; ++k) {
    const float4 other = positions[k];
    const float8 dx = other.x - x8, dy = other.y - y8, dz = other.z - z8;
    const float8 distance2 = dx * dx + dy * dy + dz * dz + softening2;
    const float8 pull = other.w / (distance2 * sqrt(distance2));
    ax += pull * dx;  // a body is at no distance from itself: nothing is added
    ay += pull * dy;
    az += pull * dz;
  }
  vstore8(ax * dt, 0, x);
  vstore8(ay * dt, 0, y);
  vstore8(az * dt, 0, z);
  for (uint lane = 0; lane < count; ++lane) {
    const float4 velocity = velocities[first + lane] + (float4)(x[lane], y[lane], z[lane], 0);
    velocities[first + lane] = velocity;
    moved[first + lane] = positions[first + lane] + dt * (float4)(velocity.xyz, 0);
  }
}
