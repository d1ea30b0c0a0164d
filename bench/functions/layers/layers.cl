// SPDX-License-Identifier: Apache-2.0
//
// The generator of examples/spin: every step needs the one before it, so that a kernel takes as long as `iterations`
// says. Of the weights one word of every page is read: enough to see that they are there, and not what takes time.
#define PAGE 1024  // words

uint spin(uint state, uint iterations) {
  for (uint i = 0; i < iterations; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
  }
  return state;
}

uint look(__global const uint* words, uint size, uint id) {
  uint sum = 0;
  for (uint i = id * PAGE; i < size; i += 64 * PAGE) sum += words[i];
  return sum;
}

__kernel void first(__global const uint* input, __global const uint* head, __global const uint* body,
                    __global uint* work, __global uint* sums, uint n, uint head_size, uint body_size, uint scratch,
                    uint iterations) {
  const uint id = get_global_id(0), state = spin(id + 1, iterations);
  for (uint i = id; i < scratch; i += 64) work[i] = i;
  sums[id] = look(input, n, id) + look(head, head_size, id) + look(body, body_size, id) + (state == 0);
}

__kernel void next(__global const uint* work, __global uint* sums, uint scratch, uint iterations) {
  const uint id = get_global_id(0), state = spin(id + 1, iterations);
  sums[id] += work[id % scratch] + (state == 0);
}
