/* Counts the words of a text and remembers the longest text so far. Build it with

     zig cc word_count.c -o word_count.wasm --target=wasm32-freestanding -Os -nostdlib \
         -Wl,--no-entry -Wl,-z,stack-size=65536

   (`python -m ziglang cc …` does the same). */

#include <stdint.h>

#define EXPORT(name) __attribute__((export_name(name)))
#define IMPORT(name) __attribute__((import_module("flo"), import_name(name)))

IMPORT("log") void flo_log(int32_t level, const char *message, uint32_t length);
IMPORT("kv_get") int32_t flo_kv_get(const char *key, uint32_t key_length, void *buffer, uint32_t length);
IMPORT("kv_set") int32_t flo_kv_set(const char *key, uint32_t key_length, const void *value, uint32_t length);

static const char KEY[] = "longest-text";
static const char RECORD[] = "the longest text so far";

static char heap[1 << 20];
static uint32_t heap_offset = 0;
static char output[64];

EXPORT("alloc") char *alloc(uint32_t size) {
    uint32_t aligned = (heap_offset + 7) & ~7u;
    if (size > sizeof heap - aligned) return 0;
    heap_offset = aligned + size;
    return heap + aligned;
}

EXPORT("dealloc") void dealloc(char *pointer, uint32_t size) {
    (void)pointer;
    (void)size;
}

static int64_t packed(const char *pointer, uint32_t length) {
    return (int64_t)((uint64_t)(uintptr_t)pointer << 32 | length);
}

static uint32_t put_text(char *at, const char *text) {
    uint32_t length = 0;
    for (; text[length]; length++) at[length] = text[length];
    return length;
}

static uint32_t put_number(char *at, uint32_t number) {
    char digits[10];
    uint32_t count = 0;
    do digits[count++] = (char)('0' + number % 10);
    while (number /= 10);
    for (uint32_t index = 0; index < count; index++) at[index] = digits[count - 1 - index];
    return count;
}

static uint32_t words_in(const char *text, uint32_t length) {
    uint32_t words = 0;
    int inside = 0;
    for (uint32_t index = 0; index < length; index++) {
        int blank = text[index] == ' ' || (text[index] >= '\t' && text[index] <= '\r');
        if (!blank && !inside) words++;
        inside = !blank;
    }
    return words;
}

EXPORT("handle") int64_t handle(const char *input, uint32_t length) {
    uint32_t longest = 0;
    int32_t found = flo_kv_get(KEY, sizeof KEY - 1, &longest, sizeof longest);
    if (found >= 0 && found != sizeof longest) return -3; /* this is no number of ours */
    if (length > longest) {
        longest = length;
        if (flo_kv_set(KEY, sizeof KEY - 1, &longest, sizeof longest) != 0) return -3;
        flo_log(1, RECORD, sizeof RECORD - 1);
    }
    uint32_t at = put_text(output, "{\"words\":");
    at += put_number(output + at, words_in(input, length));
    at += put_text(output + at, ",\"longest\":");
    at += put_number(output + at, longest);
    at += put_text(output + at, "}");
    return packed(output, at);
}
