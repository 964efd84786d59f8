// Arithmetic that names its rounding, in CUDA's words. The compiler is told not to fuse.
#pragma once
#include <cmath>

// Round to nearest, ties to even, is the processor's mode.
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
// Rounded somehow: a GPU may be off by two units in the last place.
static inline float __fdividef(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }

// The upper half of 64 bits that are moved to the left by 0 to 31.
static inline unsigned int __funnelshift_l(unsigned int low, unsigned int high, unsigned int count) {
    return (unsigned int)((((unsigned long long)high << 32 | low) << (count & 31)) >> 32);
}
// Four bytes of eight; each is named by four bits.
static inline unsigned int __byte_perm(unsigned int low, unsigned int high, unsigned int names) {
    const unsigned long long bytes = (unsigned long long)high << 32 | low;
    unsigned int chosen = 0;
    for (int n = 0; n < 4; n++)
        chosen |= (unsigned int)(bytes >> (8 * (names >> (4 * n) & 7)) & 255) << (8 * n);
    return chosen;
}
