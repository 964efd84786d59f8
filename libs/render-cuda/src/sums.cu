// XXH3-64 of rows (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md, "XXH3"), without a seed and for rows
// of more than 240 bytes: the host's own checksums.
//
// A block of 1,024 bytes adds to eight sums, whatever the order. Between two blocks the sums are scrambled, one block
// after the other. So most threads of a block of threads add up blocks, and eight threads put their sums together.

#define SUM_LANES 8u
#define SUM_STRIPES 16u
#define SUM_BLOCK_BYTES 1024u
// Groups of eight threads that put sums together or do nothing: those of the first warp.
#define SUM_IDLE_GROUPS 4u
// Sums of a block: products, and the words that are added to their neighbours.
#define SUM_BLOCK_SUMS 16u

#define PRIME32_1 0x9E3779B1u
#define PRIME64_1 0x9E3779B185EBCA87ull
#define SUM_AVALANCHE 0x165667919E3779F9ull

// The default secret: its words, those at byte 121 for the last stripe, those at byte 11 for the end.
__constant__ u64 SUM_SECRET[24] = {
    0xbe4ba423396cfeb8ull, 0x1cad21f72c81017cull, 0xdb979083e96dd4deull, 0x1f67b3b7a4a44072ull,
    0x78e5c0cc4ee679cbull, 0x2172ffcc7dd05a82ull, 0x8e2443f7744608b8ull, 0x4c263a81e69035e0ull,
    0xcb00c391bb52283cull, 0xa32e531b8b65d088ull, 0x4ef90da297486471ull, 0xd8acdea946ef1938ull,
    0x3f349ce33f76faa8ull, 0x1d4f0bc7c7bbdcf9ull, 0x3159b4cd4be0518aull, 0x647378d9c97e9fc8ull,
    0xc3ebd33483acc5eaull, 0xeb6313faffa081c5ull, 0x49daf0b751dd0d17ull, 0x9e68d429265516d3ull,
    0xfca1477d58be162bull, 0xce31d07ad1b8f88full, 0x280416958f3acb45ull, 0x7e404bbbcafbd7afull,
};
__constant__ u64 SUM_START[SUM_LANES] = {
    0x00000000C2B2AE3Dull, 0x9E3779B185EBCA87ull, 0xC2B2AE3D27D4EB4Full, 0x165667B19E3779F9ull,
    0x85EBCA77C2B2AE63ull, 0x0000000085EBCA77ull, 0x27D4EB2F165667C5ull, 0x000000009E3779B1ull,
};

// A row and its checksum's place: the number of the row.
struct SummedRow {
    u64 place;
    u64 bytes;
};
static_assert(sizeof(SummedRow) == 16, "sums.rs writes 16 bytes");

// Eight bytes from the bit on of two words, the second of which is not read where it is not wanted.
__device__ u64 word_from(const u64* words, u32 bit) {
    return bit == 0 ? words[0] : words[0] >> bit | words[1] << (64 - bit);
}

// Eight bytes from any place on. What is read beside them is in the arena: gaps of 256 bytes end before and behind rows.
__device__ u64 word_at(const u8* at) {
    return word_from((const u64*)((u64)at & ~7ull), 8 * (u32)((u64)at & 7));
}

// Eight bytes of the secret from byte `at` on.
__device__ u64 secret_at(u32 at) { return word_from(SUM_SECRET + at / 8, 8 * (at % 8)); }

__device__ u64 product_of(u64 key) { return (key & 0xffffffffull) * (key >> 32); }

__device__ u64 scrambled(u64 sum, u64 secret) { return (sum ^ sum >> 47 ^ secret) * PRIME32_1; }

// Both halves of the product of 128 bits.
__device__ u64 folded(u64 a, u64 b) {
    const u64 a_low = a & 0xffffffffull, a_high = a >> 32, b_low = b & 0xffffffffull, b_high = b >> 32;
    const u64 low = a_low * b_low, one = a_high * b_low, other = a_low * b_high;
    const u64 middle = (low >> 32) + (one & 0xffffffffull) + other;
    const u64 high = a_high * b_high + (one >> 32) + (middle >> 32);
    return high ^ (middle << 32 | (low & 0xffffffffull));
}

// Checksums of rows: a block of threads for each of the list at `rows`. Shared memory: the sums of two times as many
// blocks as there are groups of threads that add them up.
extern "C" __global__ void sum_rows(u8* arena, u64 rows, u64 sums) {
    SHARED_BYTES(shared);
    const SummedRow row = ((const SummedRow*)(arena + rows))[blockIdx.x];
    const u8* bytes = arena + row.place;
    const u32 lane = threadIdx.x % SUM_LANES, group = threadIdx.x / SUM_LANES;
    const u32 groups = blockDim.x / SUM_LANES - SUM_IDLE_GROUPS;
    const u64 blocks = (row.bytes - 1) / SUM_BLOCK_BYTES;
    u64 secret[SUM_STRIPES];
#pragma unroll
    for (u32 stripe = 0; stripe < SUM_STRIPES; stripe++) secret[stripe] = SUM_SECRET[stripe + lane];
    u64 sum = SUM_START[lane];
    for (u64 first = 0; first < blocks + groups; first += groups) {
        // Sums of these blocks go to one half, those of the blocks before are in the other.
        const bool odd = first / groups % 2;
        u64* now = (u64*)shared + (odd ? SUM_BLOCK_SUMS * groups : 0);
        const u64* before = (u64*)shared + (odd ? 0 : SUM_BLOCK_SUMS * groups);
        const u64 block = first + group - SUM_IDLE_GROUPS;
        if (group >= SUM_IDLE_GROUPS && block < blocks) {
            const u8* at = bytes + SUM_BLOCK_BYTES * block + 8 * lane;
            u64 products = 0, words = 0;
#pragma unroll
            for (u32 stripe = 0; stripe < SUM_STRIPES; stripe++) {
                const u64 word = word_at(at + 8 * SUM_LANES * stripe);
                products += product_of(word ^ secret[stripe]);
                words += word;
            }
            u64* of_block = now + SUM_BLOCK_SUMS * (group - SUM_IDLE_GROUPS);
            of_block[lane] = products;
            of_block[SUM_LANES + (lane ^ 1)] = words;
        }
        if (group == 0 && first > 0) {
            for (u32 number = 0; number < groups && first - groups + number < blocks; number++) {
                sum += before[SUM_BLOCK_SUMS * number + lane];
                sum += before[SUM_BLOCK_SUMS * number + SUM_LANES + lane];
                sum = scrambled(sum, SUM_SECRET[SUM_STRIPES + lane]);
            }
        }
        __syncthreads();
    }
    u64* last = (u64*)shared;
    if (group == 0) {
        // Stripes of the last block, and the last 64 bytes once more.
        const u8* at = bytes + SUM_BLOCK_BYTES * blocks + 8 * lane;
        const u32 stripes = (u32)((row.bytes - 1 - SUM_BLOCK_BYTES * blocks) / 64);
        u64 words = 0;
        for (u32 stripe = 0; stripe < stripes; stripe++) {
            const u64 word = word_at(at + 64 * stripe);
            sum += product_of(word ^ SUM_SECRET[stripe + lane]);
            words += word;
        }
        const u64 word = word_at(bytes + row.bytes - 64 + 8 * lane);
        sum += product_of(word ^ secret_at(121 + 8 * lane));
        last[lane ^ 1] = words + word;
    }
    __syncthreads();
    if (group == 0) last[SUM_LANES + lane] = sum + last[lane];
    __syncthreads();
    if (threadIdx.x > 0) return;
    u64 end = row.bytes * PRIME64_1;
    for (u32 pair = 0; pair < SUM_LANES; pair += 2) {
        const u64* of_pair = last + SUM_LANES + pair;
        end += folded(of_pair[0] ^ secret_at(11 + 8 * pair), of_pair[1] ^ secret_at(19 + 8 * pair));
    }
    end = (end ^ end >> 37) * SUM_AVALANCHE;
    ((u64*)(arena + sums))[blockIdx.x] = end ^ end >> 32;
}
