// From bits to coefficients: a segment a thread. Threads of a warp have segments of one image, of about as many
// symbols each, and each turn of their loop is one symbol, whatever block it belongs to.

// Bits still to be read: those at the left of `window`, and then the words from `at` on. The first of these is loaded
// long before it is needed: a thread that waits for it keeps its warp waiting.
struct Bits {
    const u32* words;
    u32 words_len;
    u32 at;
    u32 have;  // bits of the window
    u32 next;  // the word at `at`, as it lies there
    u64 window;
};

// Behind the last word all bits are zero.
__device__ u32 word_at(const Bits& bits, u32 at) { return at < bits.words_len ? bits.words[at] : 0; }

// Afterwards there are 32 bits at least: more than a code and its value.
__device__ void refill(Bits& bits) {
    if (bits.have >= 32) return;
    const u32 word = bits.next;
    const u32 turned = word << 24 | (word & 0xff00u) << 8 | (word >> 8 & 0xff00u) | word >> 24;
    bits.window |= (u64)turned << (32 - bits.have);
    bits.have += 32;
    bits.at++;
    bits.next = word_at(bits, bits.at);
}

__device__ void take(Bits& bits, u32 count) {
    bits.window <<= count;
    bits.have -= count;
}

// The number of the next bit.
__device__ u32 position(const Bits& bits) { return bits.at * 32 - bits.have; }

__device__ Bits bits_from(const u8* arena, const Jpeg& jpeg, u32 bit) {
    Bits bits = {(const u32*)(arena + jpeg.coded), jpeg.words_len, bit / 32, 0, 0, 0};
    bits.next = word_at(bits, bits.at);
    refill(bits);
    take(bits, bit % 32);
    return bits;
}

// Symbol, and from bit 8 on the bits of its code, of a code that a lookup does not tell; 0 where there is none. Rare for
// a thread, but not for the warp that waits for it: hence all lengths are looked at together.
__device__ u32 find_long(const HuffmanTable& table, u64 window) {
    const u32 code = (u32)(window >> 48);
    u32 longer = 0;
#pragma unroll
    for (u32 n = 0; n < 7; n++) longer += code >= table.ends[n] ? 1 : 0;
    if (longer == 7) return 0;
    const u32 bits = LOOKUP_BITS + 1 + longer;
    const u32 place = (code >> (16 - bits)) + table.places[longer];
    return bits << 8 | table.symbols[place & 255];
}

// The value that the first `size` bits stand for.
__device__ i32 extended(u64 window, u32 size) {
    const i32 value = (i32)(window >> 1 >> (63 - size));
    const bool negative = size > 0 && window >> 63 == 0;
    return negative ? value - (1 << size) + 1 : value;
}

// What all threads of a block look up.
struct Lookups {
    const HuffmanTable* tables;
    const u32* blocks;  // of an MCU: component, from bit 8 on the table for DC, from bit 16 on that for AC
    const u8* natural;  // place, row by row, of each coefficient in the order of the file
};

// What of `segment` is amiss. `predictors`, of which each component has one, are `step` apart.
__device__ u32 decode_segment(u8* arena, const Jpeg& jpeg, const Segment& segment,
                              const Lookups& lookups, i32* predictors, u32 step) {
    for (u32 n = 0; n < 3; n++) predictors[n * step] = segment.predictors[n];
    Bits bits = bits_from(arena, jpeg, segment.bit);
    const u32 mcu_blocks = jpeg.mcu_blocks;
    i16* block = (i16*)(arena + jpeg.coefficients) + (u64)segment.mcu * mcu_blocks * 64;
    u32 number = 0, place = 0;
    u32 of = lookups.blocks[0];
    for (u32 mcus = segment.mcus; mcus > 0;) {
        refill(bits);
        const bool is_dc = place == 0;
        const HuffmanTable& table = lookups.tables[is_dc ? of >> 8 & 255 : of >> 16];
        u32 found = table.found[bits.window >> (64 - LOOKUP_BITS)];
        if (found == 0) found = find_long(table, bits.window);
        if (found == 0) return DAMAGED;
        take(bits, found >> 8);
        const u32 size = found & 15, run = found >> 4 & 15;
        if (size == 0 && !is_dc) {
            place = run == 15 ? place + 16 : 64;
        } else {
            place += run;
            if (place > 63) return DAMAGED;
            i32 value = extended(bits.window, size);
            take(bits, size);
            if (is_dc) {
                i32& predictor = predictors[(of & 255) * step];
                value += predictor;
                if (value != (i16)value) return DAMAGED;
                predictor = value;
            }
            block[lookups.natural[place]] = (i16)value;
            place++;
        }
        if (place < 64) continue;
        place = 0;
        block += 64;
        number++;
        if (number == mcu_blocks) {
            number = 0;
            mcus--;
            // A segment that says where it ends does not go on to the end of the image.
            if (position(bits) > segment.end_bit) return segment.end == END_PADDED ? DAMAGED : WRONG_ENTRY;
        }
        of = lookups.blocks[number];
    }
    const u32 end = position(bits);
    if (segment.end == END_PADDED) return end > segment.end_bit || segment.end_bit - end >= 8 ? DAMAGED : 0;
    bool same = end == segment.end_bit;
    for (u32 n = 0; n < 3; n++) same = same && predictors[n * step] == segment.end_predictors[n];
    return same ? 0 : WRONG_ENTRY;
}

// What all threads of a block look up of an image: 16 words for an MCU's blocks, and the tables.
__device__ void load_tables(const u8* arena, const Jpeg& jpeg, u32* blocks, u32* tables) {
    const u32 table_words = jpeg.tables_len * (u32)(sizeof(HuffmanTable) / 4);
    for (u32 n = threadIdx.x; n < table_words; n += blockDim.x) tables[n] = ((const u32*)(arena + jpeg.tables))[n];
    for (u32 n = threadIdx.x; n < jpeg.mcu_blocks; n += blockDim.x) {
        const u32 component = component_of(jpeg, n);
        blocks[n] = component | jpeg.components[component].dc << 8 | jpeg.components[component].ac << 16;
    }
}

// A group of segments for each block of threads; none of an image in which none have been found. Shared memory: three
// predictors for each thread, 16 words for an MCU's blocks, the image's tables, 64 bytes.
extern "C" __global__ void __launch_bounds__(32) decode_bits(u8* arena, u64 jpegs, u64 groups) {
    SHARED_BYTES(shared);
    const Group group = ((const Group*)(arena + groups))[blockIdx.x];
    const Jpeg& jpeg = ((const Jpeg*)(arena + jpegs))[group.jpeg];
    const Segment* segments = (const Segment*)(arena + jpeg.segments) + group.first;
    i32* predictors = (i32*)shared;
    u32* blocks = (u32*)(predictors + 3 * blockDim.x);
    u32* tables = blocks + 16;
    u8* natural = (u8*)(tables + jpeg.tables_len * (u32)(sizeof(HuffmanTable) / 4));
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
    const Lookups lookups = {(const HuffmanTable*)tables, blocks, natural};
    for (u32 n = threadIdx.x; n < group.count; n += blockDim.x) {
        const u32 amiss =
            decode_segment(arena, jpeg, segments[n], lookups, predictors + threadIdx.x, blockDim.x);
        if (amiss) atomicOr((u32*)(arena + jpeg.status), amiss);
    }
}
