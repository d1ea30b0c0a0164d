__kernel void hang(__global volatile uint* y) {
  y[0] = 1;
  while (y[0]) y[1] += 1;
}
