"""Message passing in all its links, as PTX: data, block barrier, election, signal, wait, block barrier, read.

The program is made of named parts. `SOUND` replaces some by others that order as much, `BROKEN` by others that do not;
`BULK_SOUND` and `BULK_BROKEN` do the same to data that a bulk copy writes or reads.
"""

from __future__ import annotations

THREADS = 64
BLOCKS = 2
WORDS = THREADS * BLOCKS

PRODUCER = """
    ld.param.u64 %rd1, [p3];  // counter
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r3, %r2, 64, %r1; mul.wide.u32 %rd2, %r3, 4;
    add.u64 %rd3, %a, %rd2; setp.ne.u32 %p1, %r1, 0;
    {data}
    {gather}
    @%p1 ret;
    {count}
    setp.ne.u32 %p2, %r4, 1; @%p2 ret;
    {publish}
    ret;
"""
CONSUMER = """
    ld.param.u64 %rd1, [p3];  // what was read
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.u64 %rd3, %a, %rd2; add.u64 %rd4, %rd1, %rd2;
    setp.ne.u32 %p1, %r1, 0; @%p1 bra TOGETHER;
    mov.u32 %r9, 0;
    LOOK: {look} %r5, [%b]; add.u32 %r9, %r9, 1; setp.gt.u32 %p2, %r9, 100000; @%p2 bra TOGETHER;
    setp.eq.u32 %p3, %r5, 0; @%p3 bra LOOK;
    {acquire}
    TOGETHER: {spread}
    {read}
    st.global.u32 [%rd4], %r7;
    ret;
"""
PARTS = {
    "data": "st.global.u32 [%rd3], 1;",
    "gather": "bar.sync 0;",
    "count": "atom.acq_rel.gpu.global.inc.u32 %r4, [%rd1], 1;",
    "publish": "st.release.sys.global.u32 [%b], 1;",
    "look": "ld.relaxed.sys.global.u32",
    "acquire": "ld.acquire.sys.global.u32 %r6, [%b];",
    "spread": "bar.sync 0;",
    "read": "ld.global.u32 %r7, [%rd3];",
}
RELAXED_COUNT = "atom.relaxed.gpu.global.inc.u32 %r4, [%rd1], 1;"
SOUND: dict[str, dict[str, str]] = {
    "as it is": {},
    "acquiring polls": {"look": "ld.acquire.sys.global.u32", "acquire": ""},
    "relaxed signal behind a system fence": {"publish": "fence.acq_rel.sys; st.relaxed.sys.global.u32 [%b], 1;"},
    "relaxed wait before a system fence": {"acquire": "fence.acq_rel.sys;"},
    "volatile signal and wait with __threadfence_system": {
        "publish": "membar.sys; st.volatile.global.u32 [%b], 1;",
        "look": "ld.volatile.global.u32",
        "acquire": "membar.sys;",
    },
    "releasing count before a fence": {
        "count": "atom.release.gpu.global.inc.u32 %r4, [%rd1], 1; fence.acq_rel.gpu;",
    },
    "relaxed count between fences": {"count": f"fence.acq_rel.gpu; {RELAXED_COUNT} fence.acq_rel.gpu;"},
    "relaxed count between system fences": {"count": f"fence.acq_rel.sys; {RELAXED_COUNT} fence.acq_rel.sys;"},
    "seen by one thread, acquired by every thread behind the barrier": {
        "acquire": "",
        "spread": "bar.sync 0; ld.acquire.sys.global.u32 %r6, [%b];",
    },
    "seen by one thread, fenced by every thread behind the barrier": {
        "acquire": "",
        "spread": "bar.sync 0; ld.relaxed.sys.global.u32 %r6, [%b]; fence.acq_rel.sys;",
    },
    "signal by an atomic": {"publish": "atom.release.sys.global.exch.b32 %r8, [%b], 1;"},
    "strong data": {"data": "st.relaxed.sys.global.u32 [%rd3], 1;", "read": "ld.relaxed.sys.global.u32 %r7, [%rd3];"},
}
BROKEN: dict[str, dict[str, str]] = {
    "relaxed signal": {"publish": "st.relaxed.sys.global.u32 [%b], 1;"},
    "signal released to its own GPU": {"publish": "st.release.gpu.global.u32 [%b], 1;"},
    "signal behind a fence of its own GPU": {"publish": "fence.acq_rel.gpu; st.relaxed.sys.global.u32 [%b], 1;"},
    "weak signal": {"publish": "fence.acq_rel.sys; st.global.u32 [%b], 1;"},
    "relaxed wait": {"acquire": ""},
    "seen by one thread, and only looked at behind the barrier": {
        "acquire": "",
        "spread": "bar.sync 0; ld.relaxed.sys.global.u32 %r6, [%b];",
    },
    "wait that acquires from its own GPU": {"acquire": "ld.acquire.gpu.global.u32 %r6, [%b];"},
    "wait before a fence of its own GPU": {"acquire": "fence.acq_rel.gpu;"},
    "acquired, and other threads not told": {"spread": "nanosleep.u32 3000;"},
    "counted before all have stored": {"gather": ""},
    "relaxed count": {"count": RELAXED_COUNT},
    "relaxed count with a fence before it alone": {"count": f"fence.acq_rel.gpu; {RELAXED_COUNT}"},
    "count released to its own block": {"count": "atom.acq_rel.cta.global.inc.u32 %r4, [%rd1], 1;"},
}

BULK_STORE = """
    setp.ne.u32 %p3, %r1, 0; setp.ne.u32 %p4, %r2, 0; or.pred %p3, %p3, %p4; @%p3 bra STORED;
    mov.u32 %r5, 0;
    FILL: mov.u32 %r6, tile; add.u32 %r6, %r6, %r5; st.shared.u32 [%r6], 1; add.u32 %r5, %r5, 4;
    setp.lt.u32 %p3, %r5, 512; @%p3 bra FILL;
    {before}
    fence.proxy.async;
    {between}
    cp.async.bulk.global.shared::cta.bulk_group [%a], [tile], 512; cp.async.bulk.commit_group;
    {wait}
    STORED:
"""
BULK_STORE_PARTS = {"before": "", "between": "", "wait": "cp.async.bulk.wait_group 0;"}
BULK_LOAD = """
    @%p1 bra FETCHED;
    mbarrier.init.shared::cta.b64 [full], 1;
    {fence}
    mbarrier.arrive.expect_tx.shared::cta.b64 _, [full], 512;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [tile], [%a], 512, [full];
    WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p4, [full], 0; @!%p4 bra WAIT;
    FETCHED: bar.sync 0; mov.u32 %r6, tile; mad.lo.u32 %r6, %r1, 4, %r6; ld.shared.u32 %r7, [%r6];
"""


def bulk_store(**parts: str) -> dict[str, str]:
    return {"data": BULK_STORE.format_map(BULK_STORE_PARTS | parts)}


def bulk_load(fence: str) -> dict[str, str]:
    return {"read": BULK_LOAD.format(fence=fence)}


OVERWRITTEN = "st.global.u32 [%a], 7;"
BULK_SOUND = {
    "bulk store": bulk_store(),
    "bulk store over what the thread wrote, behind a proxy fence": bulk_store(before=OVERWRITTEN),
    "bulk load behind a proxy fence": bulk_load("fence.proxy.async;"),
    "bulk load whose end is only tested for": {
        "read": BULK_LOAD.format(fence="fence.proxy.async;").replace("try_wait", "test_wait")
    },
    "bulk store and bulk load": bulk_store() | bulk_load("fence.proxy.async.global;"),
}
BULK_BROKEN = {
    "bulk store that has only read its source": bulk_store(wait="cp.async.bulk.wait_group.read 0;"),
    "bulk store that nobody waits for": bulk_store(wait=""),
    "bulk store over what the thread wrote, without a proxy fence": bulk_store(between=OVERWRITTEN),
    "bulk load without a proxy fence": bulk_load(""),
    "bulk load behind a proxy fence of shared memory": bulk_load("fence.proxy.async.shared::cta;"),
}


def producer(replaced: dict[str, str]) -> str:
    return PRODUCER.format_map(PARTS | replaced)


def consumer(replaced: dict[str, str]) -> str:
    return CONSUMER.format_map(PARTS | replaced)
