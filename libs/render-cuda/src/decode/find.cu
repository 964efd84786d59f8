// Where the segments of a scan begin that has neither restart markers nor entry points: a warp an image, an equal part
// of the bits a thread.
//
// A thread begins at the first bit of its part with the guess that an MCU begins there. It reads the lengths of codes
// and values, and adds up the differences of DC. After a wrong guess it reads garbage, but Huffman codes fall into step
// by themselves: sooner or later it comes to a true begin of an MCU, and is right from there on. It notes some begins of
// MCUs as marks, and runs on into the next parts until it begins an MCU at a mark of a thread there. The MCUs and the
// sums between the marks add up to segments.
//
// They are a guess still, whatever the bits were: decode_bits proves them as it proves all segments.

// A lane has this many MCUs at least: with fewer it hardly falls into step.
#define LANE_MCUS_MIN 8u
// Marks of a lane: the first begins of MCUs that are MARK_BITS, twice, four times .. as many bits behind its own begin.
#define MARKS 8u
#define MARK_BITS 256u
// Parts that a lane runs on into.
#define REACH 4u
// Symbols that a lane reads at most: the warp waits for the one that reads the most.
#define SYMBOLS_MAX (1u << 16)
// No bit, no lane.
#define NONE 0xffffffffu

struct Mark {
    u32 bit;
    u32 mcu;      // MCUs that the lane has ended before
    u16 sums[4];  // of differences of DC before it, for each component
};

// Where a lane has met another one.
struct Meeting {
    u32 lane;  // NONE: it has met none; `lanes`: it has come to the end of the scan
    u32 mark;
    Mark here;
};

// A lane on its way.
struct Walk {
    Bits bits;
    u32 place, number, of;  // in the block, in the MCU, and what the block looks up
    u32 mcu, turns;
    u32* sums;              // of three components, LANES apart
};

// What all lanes look at.
struct Finder {
    Lookups lookups;
    Mark* marks;
    u32 bits, lanes, mcu_blocks;
};

__device__ u32 part_begin(const Finder& finder, u32 lane) { return (u32)((u64)finder.bits * lane / finder.lanes); }

__device__ bool begins_mcu(const Walk& walk) { return walk.place == 0 && walk.number == 0; }

__device__ Mark mark_of(const Walk& walk) {
    const u32* sums = walk.sums;
    return Mark{walk.bits.at, walk.mcu, {(u16)sums[0], (u16)sums[LANES], (u16)sums[2 * LANES], 0}};
}

// One symbol.
__device__ __forceinline__ void walk_on(const Finder& finder, Walk& walk) {
    const bool is_dc = walk.place == 0;
    const Symbol symbol = take_symbol(walk.bits, table_of(finder.lookups, walk.of, is_dc));
    if (is_dc) walk.sums[(walk.of & 255) * LANES] += (u32)symbol.value;
    const bool ends = !is_dc & (symbol.size == 0) & (symbol.run != 15);
    if (symbol.is_code) walk.place = ends ? 64 : walk.place + symbol.run + 1;
    if (walk.place < 64) return;
    walk.place = 0;
    walk.number++;
    if (walk.number == finder.mcu_blocks) {
        walk.number = 0;
        walk.mcu++;
    }
    walk.of = finder.lookups.blocks[walk.number];
}

// Before each TURNS symbols; whether the lane may go on.
__device__ __forceinline__ bool begin_turns(Walk& walk) {
    send_for_more(walk.bits);
    await_some();
    walk.turns++;
    return walk.turns <= SYMBOLS_MAX / TURNS;
}

// Through the lane's own part, whose marks it notes.
__device__ void walk_own(const Finder& finder, Walk& walk, u32 lane) {
    Mark* own = finder.marks + lane * MARKS;
    const u32 begin = part_begin(finder, lane), end = part_begin(finder, lane + 1);
    u32 noted = 0;
    while (walk.bits.at < end && begin_turns(walk)) {
#pragma unroll
        for (u32 turn = 0; turn < TURNS && walk.bits.at < end; turn++) {
            if (begins_mcu(walk)) {
                for (; noted < MARKS && walk.bits.at >= begin + (MARK_BITS << noted); noted++) own[noted] = mark_of(walk);
            }
            walk_on(finder, walk);
        }
    }
    for (; noted < MARKS; noted++) own[noted].bit = NONE;
}

// On into the next parts.
__device__ Meeting walk_to_others(const Finder& finder, Walk& walk, u32 lane) {
    for (u32 other = lane + 1; other < finder.lanes && other <= lane + REACH; other++) {
        const Mark* marks = finder.marks + other * MARKS;
        const u32 begin = part_begin(finder, other), end = part_begin(finder, other + 1);
        u32 next = 0;
        while (walk.bits.at < end) {
            if (!begin_turns(walk)) return Meeting{NONE, 0, {}};
#pragma unroll
            for (u32 turn = 0; turn < TURNS && walk.bits.at < end; turn++) {
                if (begins_mcu(walk)) {
                    for (; next < MARKS && walk.bits.at >= begin + (MARK_BITS << next); next++) {
                        if (marks[next].bit == walk.bits.at) return Meeting{other, next, mark_of(walk)};
                    }
                }
                walk_on(finder, walk);
            }
        }
    }
    return Meeting{walk.bits.at >= finder.bits ? finder.lanes : NONE, 0, {}};
}

// Segments out of what the lanes have met, from the first one on; how many there are, none where the lanes are not in
// step or a segment would be too long.
__device__ u32 join(const Finder& finder, const Meeting* meetings, u32 mcus, Segment* segments) {
    Mark from = {0, 0, {0, 0, 0, 0}};  // the lane's own count where it is met
    Segment segment = {};
    u32 lane = 0;
    for (u32 count = 0; count < LANES; count++) {
        const Meeting& meeting = meetings[lane];
        const bool is_last = meeting.lane == finder.lanes;
        if (meeting.lane > finder.lanes) return 0;
        if (is_last) {
            segment.mcus = mcus - segment.mcu;
            segment.end = END_PADDED;
            segment.end_bit = finder.bits;
        } else {
            if (meeting.here.mcu <= from.mcu || meeting.here.mcu - from.mcu >= mcus - segment.mcu) return 0;
            segment.mcus = meeting.here.mcu - from.mcu;
            segment.end = END_AT;
            segment.end_bit = meeting.here.bit;
            for (u32 n = 0; n < 3; n++)
                segment.end_predictors[n] =
                    (i16)(u16)((u32)segment.predictors[n] + meeting.here.sums[n] - from.sums[n]);
        }
        const bool is_short = segment.end_bit > segment.bit && segment.end_bit - segment.bit <= SEGMENT_BITS_MAX &&
                              segment.mcus <= SEGMENT_BLOCKS_MAX / finder.mcu_blocks;
        if (!is_short) return 0;
        segments[count] = segment;
        if (is_last) return count + 1;
        segment.mcu += segment.mcus;
        segment.bit = segment.end_bit;
        for (u32 n = 0; n < 3; n++) segment.predictors[n] = segment.end_predictors[n];
        lane = meeting.lane;
        from = finder.marks[lane * MARKS + meeting.mark];
    }
    return 0;
}

// A warp for each of the first groups, which have no segments yet. Shared memory: a ring and three sums for each
// thread, 16 words for an MCU's blocks, marks and meetings of all lanes, the image's tables.
extern "C" __global__ void __launch_bounds__(32) find_entries(u8* arena, u64 jpegs, u64 groups) {
    SHARED_BYTES(shared);
    Group& group = ((Group*)(arena + groups))[blockIdx.x];
    const Jpeg& jpeg = ((const Jpeg*)(arena + jpegs))[group.jpeg];
    u32* rings = (u32*)shared;
    u32* sums = rings + RING * LANES;
    u32* blocks = sums + 3 * LANES;
    Mark* marks = (Mark*)(blocks + 16);
    Meeting* meetings = (Meeting*)(marks + LANES * MARKS);
    u32* tables = (u32*)(meetings + LANES);
    load_tables(arena, jpeg, blocks, tables);
    __syncthreads();
    const u32 most = jpeg.mcus / LANE_MCUS_MIN, lanes = most < 1 ? 1 : most < LANES ? most : LANES;
    const Lookups lookups = {(const u16*)tables, blocks, nullptr};
    const Finder finder = {lookups, marks, jpeg.bits, lanes, jpeg.mcu_blocks};
    const u32 lane = threadIdx.x;
    const u32 first_bit = part_begin(finder, lane < lanes ? lane : 0);
    Walk walk = {bits_from(arena, jpeg, first_bit, rings + lane), 0, 0, blocks[0], 0, 0, sums + lane};
    for (u32 n = 0; n < 3; n++) walk.sums[n * LANES] = 0;
    if (lane < lanes) walk_own(finder, walk, lane);
    __syncthreads();
    if (lane < lanes) meetings[lane] = walk_to_others(finder, walk, lane);
    __syncthreads();
    if (lane > 0) return;
    group.count = join(finder, meetings, jpeg.mcus, (Segment*)(arena + jpeg.segments));
    if (group.count == 0) atomicOr((u32*)(arena + jpeg.status), NOT_IN_STEP);
}
