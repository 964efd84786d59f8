// From bits to coefficients: a segment a thread. Threads of a warp have segments of one image, of about as many
// symbols each, and each turn of their loop is one symbol, whatever block it belongs to.

// A thread's words of the scan pass through a ring in shared memory: RING words, LANES apart. They are sent for long
// before they are needed, since a thread that waits for one keeps its warp waiting.
#define RING 16u
// Symbols between two times that words are sent for: they take fewer words than are sent for.
#define TURNS 4u

// Since sm_80 a word goes to shared memory without a register that is waited for.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
__device__ __forceinline__ void send_for(u32* to, const u32* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
// Afterwards words are there that were sent for three calls ago or earlier: of 15 words at most the last 8 are not.
__device__ __forceinline__ void await_some() {
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 2;" ::: "memory");
}
__device__ __forceinline__ void await_all() {
    asm volatile("cp.async.commit_group;\ncp.async.wait_group 0;" ::: "memory");
}
#else
__device__ __forceinline__ void send_for(u32* to, const u32* from) { *to = *from; }
__device__ __forceinline__ void await_some() {}
__device__ __forceinline__ void await_all() {}
#endif

// Bits still to be read.
struct Bits {
    const u32* words;
    u32 last;    // number of the last word
    u32 loaded;  // words before this one have been sent for
    u32 at;      // the next bit
    u32* ring;
};

// Fills the ring up. Behind the last word come copies of it: whoever reads them has gone too far, which is found.
__device__ __forceinline__ void send_for_more(Bits& bits) {
#pragma unroll
    for (u32 n = 0; n < TURNS; n++) {
        if (bits.loaded < bits.at / 32 + RING - 1) {
            send_for(bits.ring + bits.loaded % RING * LANES, bits.words + (bits.loaded < bits.last ? bits.loaded : bits.last));
            bits.loaded++;
        }
    }
}

__device__ Bits bits_from(const u8* arena, const Jpeg& jpeg, u32 bit, u32* ring) {
    Bits bits = {(const u32*)(arena + jpeg.coded), jpeg.words_len - 1, bit / 32, bit, ring};
    for (u32 n = 0; n < RING / TURNS; n++) send_for_more(bits);
    await_all();
    return bits;
}

// One symbol and its value.
struct Symbol {
    bool is_code;
    u32 size, run;
    i32 value;
};

// Where the next bits begin no code, one of them is stepped over.
__device__ __forceinline__ Symbol take_symbol(Bits& bits, const u16* table) {
    const u32 word = bits.at / 32;
    const u32 high = __byte_perm(bits.ring[word % RING * LANES], 0, 0x0123);
    const u32 low = __byte_perm(bits.ring[(word + 1) % RING * LANES], 0, 0x0123);
    const u32 window = __funnelshift_l(low, high, bits.at % 32);
    u32 found = table[window >> (32 - FIRST_BITS)];
    // 0, no code, is no second-level block: it wraps around.
    if (found - 1 < 255)
        found = table[(found << SECOND_BITS) + (window >> (32 - FIRST_BITS - SECOND_BITS)) % (1 << SECOND_BITS)];
    const u32 code_bits = found >> 8, size = found & 15;
    const u32 rest = window << code_bits;
    i32 value = (i32)(rest >> 1 >> (31 - size));
    if ((i32)rest >= 0) value -= (1 << size) - 1;
    bits.at += found == 0 ? 1 : code_bits + size;
    return Symbol{found != 0, size, found >> 4 & 15, value};
}

// What all threads of a block look up.
struct Lookups {
    const u16* tables;
    const u32* blocks;  // of an MCU: component, from bit 8 on the table for DC, from bit 20 on that for AC
    const u8* natural;  // place, row by row, of each coefficient in the order of the file
};

__device__ __forceinline__ const u16* table_of(const Lookups& lookups, u32 of, bool is_dc) {
    return lookups.tables + TABLE_UNIT * (is_dc ? of >> 8 & 0xfff : of >> 20);
}

// What of `segment` is amiss. `predictors`, of which each component has one, are LANES apart.
__device__ u32 decode_segment(u8* arena, const Jpeg& jpeg, const Segment& segment,
                              const Lookups& lookups, i32* predictors, u32* ring) {
    for (u32 n = 0; n < 3; n++) predictors[n * LANES] = segment.predictors[n];
    Bits bits = bits_from(arena, jpeg, segment.bit, ring);
    const u32 mcu_blocks = jpeg.mcu_blocks, end_bit = segment.end_bit;
    const bool is_padded = segment.end == END_PADDED;
    i16* block = (i16*)(arena + jpeg.coefficients) + (u64)segment.mcu * mcu_blocks * 64;
    u32 number = 0, place = 0, mcus = segment.mcus;
    u32 of = lookups.blocks[0];
    bool is_bad = false;
    while (mcus > 0) {
        send_for_more(bits);
        await_some();
#pragma unroll
        for (u32 turn = 0; turn < TURNS; turn++) {
            if (mcus == 0) break;
            const bool is_dc = place == 0;
            const Symbol symbol = take_symbol(bits, table_of(lookups, of, is_dc));
            i32 value = symbol.value;
            const u32 to = place + symbol.run;
            is_bad |= !symbol.is_code;
            if (is_dc) {
                i32& predictor = predictors[(of & 255) * LANES];
                value += predictor;
                is_bad |= value != (i16)value;
                predictor = value;
            }
            const bool stores = is_dc | (symbol.size > 0);
            if (stores & (to < 64)) block[lookups.natural[to]] = (i16)value;
            is_bad |= stores & (to > 63);
            place = stores | (symbol.run == 15) ? to + 1 : 64;
            if (place < 64) continue;
            place = 0;
            block += 64;
            number++;
            if (number == mcu_blocks) {
                number = 0;
                mcus--;
                if (is_bad) return DAMAGED;
                // A segment that says where it ends does not go on to the end of the image.
                if (bits.at > end_bit) return is_padded ? DAMAGED : WRONG_ENTRY;
            }
            of = lookups.blocks[number];
        }
    }
    if (is_padded) return end_bit - bits.at >= 8 ? DAMAGED : 0;
    bool same = bits.at == end_bit;
    for (u32 n = 0; n < 3; n++) same = same && predictors[n * LANES] == segment.end_predictors[n];
    return same ? 0 : WRONG_ENTRY;
}

// What all threads of a block look up of an image: 16 words for an MCU's blocks, and the tables.
__device__ void load_tables(const u8* arena, const Jpeg& jpeg, u32* blocks, u32* tables) {
    for (u32 n = threadIdx.x; n < jpeg.table_words; n += blockDim.x) tables[n] = ((const u32*)(arena + jpeg.tables))[n];
    for (u32 n = threadIdx.x; n < jpeg.mcu_blocks; n += blockDim.x) {
        const u32 component = component_of(jpeg, n);
        blocks[n] = component | jpeg.components[component].dc << 8 | jpeg.components[component].ac << 20;
    }
}

// A group of segments for each block of threads; none of an image in which none have been found. Shared memory: a
// ring and three predictors for each of LANES threads, 16 words for an MCU's blocks, the image's tables, 64 bytes.
extern "C" __global__ void __launch_bounds__(32) decode_bits(u8* arena, u64 jpegs, u64 groups) {
    SHARED_BYTES(shared);
    const Group group = ((const Group*)(arena + groups))[blockIdx.x];
    const Jpeg& jpeg = ((const Jpeg*)(arena + jpegs))[group.jpeg];
    const Segment* segments = (const Segment*)(arena + jpeg.segments) + group.first;
    u32* rings = (u32*)shared;
    i32* predictors = (i32*)(rings + RING * LANES);
    u32* blocks = (u32*)(predictors + 3 * LANES);
    u32* tables = blocks + 16;
    u8* natural = (u8*)(tables + jpeg.table_words);
    load_tables(arena, jpeg, blocks, tables);
    // Along each diagonal in turn, upwards first.
    for (u32 n = threadIdx.x; n < 64; n += blockDim.x) {
        const u32 x = n % 8, y = n / 8, sum = x + y;
        const u32 before = sum < 8 ? sum * (sum + 1) / 2 : 64 - (15 - sum) * (16 - sum) / 2;
        const u32 from_left = sum < 8 ? x : x - (sum - 7), from_top = sum < 8 ? y : y - (sum - 7);
        natural[before + (sum % 2 == 0 ? from_left : from_top)] = (u8)n;
    }
    // Most coefficients are zero: those of all MCUs of the group, which are side by side.
    u32 first_mcu = 0, end_mcu = jpeg.mcus;
    if (group.count > 0) {
        const Segment& last = segments[group.count - 1];
        first_mcu = segments->mcu;
        end_mcu = last.mcu + last.mcus;
    }
    const u64 mcu_words = jpeg.mcu_blocks * (u64)(64 * sizeof(i16) / sizeof(u64));
    u64* zeros = (u64*)(arena + jpeg.coefficients);
    for (u64 n = first_mcu * mcu_words + threadIdx.x; n < end_mcu * mcu_words; n += blockDim.x) zeros[n] = 0;
    __syncthreads();
    const Lookups lookups = {(const u16*)tables, blocks, natural};
    for (u32 n = threadIdx.x; n < group.count; n += blockDim.x) {
        const u32 amiss = decode_segment(arena, jpeg, segments[n], lookups, predictors + threadIdx.x, rings + threadIdx.x);
        if (amiss) atomicOr((u32*)(arena + jpeg.status), amiss);
    }
}
