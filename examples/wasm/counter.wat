;; Counts visits to whatever the input names: the new count is stored under "visits/NAME" and is the
;; output. Build it with `wat2wasm counter.wat` (of wabt), or in Python with wasmtime.wat2wasm.
(module
  (import "flo" "kv_get" (func $kv_get (param i32 i32 i32 i32) (result i32)))
  (import "flo" "kv_set" (func $kv_set (param i32 i32 i32 i32) (result i32)))
  (import "flo" "log" (func $log (param i32 i32 i32)))

  ;; 0 the prefix and the name behind it; 1024 the number as text; 2048 a message; 4096 the heap
  (memory (export "memory") 2)
  (data (i32.const 0) "visits/")
  (data (i32.const 2048) "one more visit")
  (global $heap (mut i32) (i32.const 4096))

  (func (export "alloc") (param $size i32) (result i32)
    (local $at i32)
    (local.set $at (global.get $heap))
    (if (i32.gt_u (local.get $size) (i32.sub (i32.const 131072) (local.get $at)))
      (then (return (i32.const 0))))
    (global.set $heap (i32.add (local.get $at) (local.get $size)))
    (local.get $at))

  (func (export "dealloc") (param i32 i32))

  (func (export "handle") (param $name i32) (param $length i32) (result i64)
    (local $key_length i32)
    (local $digits i32)
    (if (i32.or (i32.eqz (local.get $length)) (i32.gt_u (local.get $length) (i32.const 1000)))
      (then (return (i64.const -1))))                                   ;; invalid input
    (memory.copy (i32.const 7) (local.get $name) (local.get $length))
    (local.set $key_length (i32.add (i32.const 7) (local.get $length)))

    (local.set $digits
      (call $kv_get (i32.const 0) (local.get $key_length) (i32.const 1024) (i32.const 20)))
    (if (i32.gt_s (local.get $digits) (i32.const 20))
      (then (return (i64.const -3))))                                   ;; this is no count of ours
    (if (i32.lt_s (local.get $digits) (i32.const 0))
      (then (local.set $digits (i32.const 0))))                         ;; the first visit
    (local.set $digits
      (call $write (i64.add (call $read (local.get $digits)) (i64.const 1))))

    (if (call $kv_set (i32.const 0) (local.get $key_length) (i32.const 1024) (local.get $digits))
      (then (return (i64.const -3))))
    (call $log (i32.const 1) (i32.const 2048) (i32.const 14))
    (i64.or (i64.shl (i64.const 1024) (i64.const 32)) (i64.extend_i32_u (local.get $digits))))

  ;; The number whose digits are at 1024.
  (func $read (param $digits i32) (result i64)
    (local $at i32)
    (local $number i64)
    (block $done
      (loop $next
        (br_if $done (i32.eq (local.get $at) (local.get $digits)))
        (local.set $number
          (i64.add
            (i64.mul (local.get $number) (i64.const 10))
            (i64.extend_i32_u
              (i32.sub (i32.load8_u offset=1024 (local.get $at)) (i32.const 48)))))
        (local.set $at (i32.add (local.get $at) (i32.const 1)))
        (br $next)))
    (local.get $number))

  ;; Writes a number's digits at 1024; returns how many there are.
  (func $write (param $number i64) (result i32)
    (local $digits i32)
    (local $rest i64)
    (local $at i32)
    (local.set $rest (local.get $number))
    (loop $count
      (local.set $digits (i32.add (local.get $digits) (i32.const 1)))
      (local.set $rest (i64.div_u (local.get $rest) (i64.const 10)))
      (br_if $count (i64.ne (local.get $rest) (i64.const 0))))
    (local.set $at (local.get $digits))
    (loop $next
      (local.set $at (i32.sub (local.get $at) (i32.const 1)))
      (i32.store8 offset=1024 (local.get $at)
        (i32.add (i32.const 48) (i32.wrap_i64 (i64.rem_u (local.get $number) (i64.const 10)))))
      (local.set $number (i64.div_u (local.get $number) (i64.const 10)))
      (br_if $next (local.get $at)))
    (local.get $digits)))
