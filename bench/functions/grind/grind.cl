// SPDX-License-Identifier: Apache-2.0
//
// Work that can be cut anywhere. A group is one work-item that runs the generator of examples/spin: every step needs
// the one before it, and it never reaches zero, which the compiler does not know. So a launch takes as long as it has
// groups, all alike, and each leaves its mark when it is done: who looks at the marks sees how far the launch is.
__kernel void grind(__global uint* marks, uint iterations, uint mark) {
  const uint id = get_global_id(0);
  uint state = id + 1;
  for (uint i = 0; i < iterations; ++i) {
    state ^= state << 13;
    state ^= state >> 17;
    state ^= state << 5;
  }
  marks[id] = state == 0 ? 0 : mark;
}
