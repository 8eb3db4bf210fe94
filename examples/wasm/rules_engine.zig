// A rules engine: who may have an account. Build it with
//
//   zig build-exe rules_engine.zig -target wasm32-freestanding -O ReleaseSmall -fno-entry -rdynamic
//
// (`python -m ziglang build-exe …` does the same.) It must be build-exe: build-lib makes an archive
// of object files, which is no module.

const std = @import("std");

const Customer = struct {
    age: ?i64 = null,
    country: ?[]const u8 = null,
};

const Verdict = struct {
    eligible: bool,
    rules_evaluated: u32,
    rules_passed: u32,
};

const Rule = *const fn (Customer) bool;

const rules = [_]Rule{ isOfAge, isServed };

const countries = [_][]const u8{ "US", "CA", "GB", "DE", "FR" };

fn isOfAge(customer: Customer) bool {
    return (customer.age orelse return false) >= 18;
}

fn isServed(customer: Customer) bool {
    const country = customer.country orelse return false;
    for (countries) |served| {
        if (std.mem.eql(u8, country, served)) return true;
    }
    return false;
}

fn judge(customer: Customer) Verdict {
    var passed: u32 = 0;
    for (rules) |rule| {
        if (rule(customer)) passed += 1;
    }
    return .{
        .eligible = passed == rules.len,
        .rules_evaluated = rules.len,
        .rules_passed = passed,
    };
}

// What the host calls. Every call has a fresh instance, so nothing is ever given back.

var heap: [65536]u8 = undefined;
var heap_offset: usize = 0;

export fn alloc(size: u32) u32 {
    const aligned = (heap_offset + 7) & ~@as(usize, 7);
    if (aligned + size > heap.len) return 0;
    heap_offset = aligned + size;
    return @intCast(@intFromPtr(&heap) + aligned);
}

export fn dealloc(_: u32, _: u32) void {}

var scratch: [131072]u8 = undefined;
var verdict: [128]u8 = undefined;

export fn handle(input_ptr: [*]const u8, input_len: u32) i64 {
    var arena = std.heap.FixedBufferAllocator.init(&scratch);
    const customer = std.json.parseFromSliceLeaky(
        Customer,
        arena.allocator(),
        input_ptr[0..input_len],
        .{ .ignore_unknown_fields = true },
    ) catch |mistake| return if (mistake == error.OutOfMemory) -2 else -1;
    const judged = judge(customer);
    const output = std.fmt.bufPrint(
        &verdict,
        "{{\"eligible\":{},\"rules_evaluated\":{d},\"rules_passed\":{d}}}",
        .{ judged.eligible, judged.rules_evaluated, judged.rules_passed },
    ) catch return -3;
    return (@as(i64, @intCast(@intFromPtr(output.ptr))) << 32) | @as(i64, @intCast(output.len));
}
