package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.record.internal.*;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.storage.internals.log.*;

import java.io.File;
import java.nio.ByteBuffer;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;

public final class SwapCheck {
    static final int CAP = Integer.getInteger("cap", 4096);
    static final Path WORK = Path.of(System.getProperty("work", "swapcheck-work"));
    static final String[] SUF = {".log", ".index", ".timeindex", ".txnindex"};

    static String nm(long b, String s) { return String.format("%020d", b) + s; }

    static final class Inode { String name; byte[] data; boolean isNew; long base; String suf; int old; }
    record Op(int inode, String to) { }
    record Phase(String name, List<Op> ops) { }
    record Rec(long offset, String key, boolean tomb, boolean control, int hash) { }

    static final class View {
        String exc; long leo, start; List<Long> segs = new ArrayList<>();
        TreeMap<Long, Rec> all = new TreeMap<>();
        TreeMap<Long, Rec> rc = new TreeMap<>();
        Map<Long, List<String>> txn = new TreeMap<>();
        String producers = "";
        TreeSet<String> problems = new TreeSet<>();
        TreeSet<String> notes = new TreeSet<>();
    }

    enum Mode { CLEAN, UNCLEAN, SCRATCH }

    final File root; final TopicPartition tp; final LogConfig config; final long now; final int exp;
    final Map<String, byte[]> rootFiles = new TreeMap<>();
    final List<Inode> inodes = new ArrayList<>();
    final List<Long> group; final long b1; long newNext; boolean emptied; boolean zeroTxn;
    final String label;
    final Map<Mode, View> refOld = new EnumMap<>(Mode.class), refNew = new EnumMap<>(Mode.class);

    static Map<String, byte[]> files(File d) throws Exception {
        Map<String, byte[]> m = new TreeMap<>();
        for (File f : d.listFiles()) if (f.isFile()) m.put(f.getName(), Files.readAllBytes(f.toPath()));
        return m;
    }

    SwapCheck(File root, JsonNode one, JsonNode all, long b1, List<Long> group, List<Long> oldBases, List<Long> newBases) throws Exception {
        this.root = root; this.tp = new TopicPartition(one.get("topic").asText(), one.get("partition").asInt());
        Map<String, String> settings = new HashMap<>();
        one.get("topicConfig").fields().forEachRemaining(e -> settings.put(e.getKey(), e.getValue().asText()));
        config = LogDir.config(settings); now = all.get("now").asLong(); exp = all.get("producerIdExpirationMs").asInt();
        this.b1 = b1; this.group = group;
        String d = tp.topic() + "-" + tp.partition();
        Map<String, byte[]> before = files(new File(root, "before/" + d)), after = files(new File(root, "after/" + d));
        rootFiles.putAll(files(new File(root, "before")));
        // keep only this partition in the checkpoints is not needed
        Map<String, byte[]> base = new TreeMap<>();
        for (var e : before.entrySet()) {
            String n = e.getKey();
            boolean seg = Arrays.stream(SUF).anyMatch(n::endsWith);
            long o = seg ? Long.parseLong(n.substring(0, 20)) : -1;
            if (!seg || o >= b1) base.put(n, e.getValue());
        }
        for (var e : after.entrySet()) {
            String n = e.getKey();
            if (Arrays.stream(SUF).anyMatch(n::endsWith) && Long.parseLong(n.substring(0, 20)) < b1) base.put(n, e.getValue());
        }
        for (var e : base.entrySet()) {
            Inode i = new Inode(); i.name = e.getKey(); i.data = e.getValue();
            for (String s : SUF) if (i.name.endsWith(s)) { i.base = Long.parseLong(i.name.substring(0, 20)); i.suf = s; }
            inodes.add(i);
        }
        boolean oldTxn = base.containsKey(nm(b1, ".txnindex"));
        for (String s : SUF) {
            byte[] data = after.get(nm(b1, s));
            if (data == null) continue;
            Inode i = new Inode(); i.name = null; i.data = data; i.isNew = true; i.base = b1; i.suf = s; inodes.add(i);
        }
        zeroTxn = oldTxn && !after.containsKey(nm(b1, ".txnindex"));
        byte[] log = after.get(nm(b1, ".log"));
        newNext = b1;
        for (MutableRecordBatch b : MemoryRecords.readableRecords(ByteBuffer.wrap(log)).batches()) newNext = b.nextOffset();
        emptied = log.length == 0;
        long tails = group.stream().filter(x -> x != b1 && x >= newNext).count();
        label = root.getName() + "/" + d + "@" + b1 + " k=" + group.size() + (emptied ? " EMPTIED" : "") + (tails > 0 ? " tails=" + tails : "")
                + (oldTxn || after.containsKey(nm(b1, ".txnindex")) || group.stream().anyMatch(x -> base.containsKey(nm(x, ".txnindex"))) ? " TXN" : "")
                + (zeroTxn ? " txnindex-vanishes" : "") + (oldBases.get(0) < b1 ? " mid" : " first");
    }

    String[] start() { String[] l = new String[inodes.size()]; for (int i = 0; i < l.length; i++) l[i] = inodes.get(i).name; return l; }
    List<Integer> news(String... only) {
        List<String> o = List.of(only);
        List<Integer> r = new ArrayList<>();
        for (String s : SUF) if (o.isEmpty() || o.contains(s)) for (int i = 0; i < inodes.size(); i++) if (inodes.get(i).isNew && inodes.get(i).suf.equals(s)) r.add(i);
        return r;
    }
    List<Integer> olds(long base, String... only) {
        List<String> o = List.of(only);
        List<Integer> r = new ArrayList<>();
        for (String s : SUF) if (o.isEmpty() || o.contains(s)) for (int i = 0; i < inodes.size(); i++) { Inode x = inodes.get(i); if (!x.isNew && x.suf != null && x.base == base && x.suf.equals(s)) r.add(i); }
        return r;
    }
    Op mv(int i, String ext) { return new Op(i, nm(inodes.get(i).base, inodes.get(i).suf) + ext); }
    List<Op> mvs(List<Integer> l, String ext) { return l.stream().map(i -> mv(i, ext)).collect(Collectors.toCollection(ArrayList::new)); }
    List<Op> oldOps() { List<Op> r = new ArrayList<>(); for (long b : group) r.addAll(mvs(olds(b), ".deleted")); return r; }
    List<Op> snapOps() {
        List<Op> r = new ArrayList<>();
        for (long b : group) if (b != b1) for (int i = 0; i < inodes.size(); i++) if (nm(b, ".snapshot").equals(inodes.get(i).name)) r.add(new Op(i, nm(b, ".snapshot.deleted")));
        return r;
    }

    /** Phases of a protocol; when `single` each rename is a phase of its own (no reordering). */
    List<Phase> protocol(String p) {
        List<Phase> r = new ArrayList<>();
        List<Integer> idx = news(".index", ".timeindex", ".txnindex"), log = news(".log");
        switch (p) {
            case "OURS", "OURS-inorder" -> {
                r.add(new Phase("A", mvs(news(), ".swap"))); r.add(new Phase("B", oldOps())); r.add(new Phase("C", mvs(news(), ""))); r.add(new Phase("D", snapOps()));
            }
            case "V1", "V1-inorder" -> {
                r.add(new Phase("A1", mvs(idx, ".swap"))); r.add(new Phase("A2", mvs(log, ".swap"))); r.add(new Phase("B", oldOps())); r.add(new Phase("C", mvs(news(), "")));
            }
            case "V2-inorder", "V2-fsynced" -> {
                r.add(new Phase("0", mvs(news(), ".cleaned"))); r.add(new Phase("A", mvs(news(), ".swap"))); r.add(new Phase("B", oldOps())); r.add(new Phase("C", mvs(news(), "")));
            }
            case "V3" -> {
                List<Op> ab = mvs(news(), ".swap"); ab.addAll(oldOps());
                r.add(new Phase("AB", ab)); r.add(new Phase("C", mvs(news(), "")));
            }
            case "REC", "REC-nobarrier", "REC-onefsync", "RECLINK" -> {
                boolean barrier = p.startsWith("REC") && !p.contains("-");
                if (zeroTxn && zeroIdx < 0) { Inode z = new Inode(); z.data = new byte[0]; z.isNew = true; z.base = b1; z.suf = ".txnindex"; inodes.add(z); zeroIdx = inodes.size() - 1; }
                List<Op> guard = mvs(news(), ".cleaned");
                if (p.equals("RECLINK")) { // second names of the old b1 files, so that the delayed deletion holds for them too
                    if (links.isEmpty()) for (int o : olds(b1)) {
                        Inode twin = new Inode(); twin.data = inodes.get(o).data; inodes.add(twin);
                        links.put(inodes.size() - 1, nm(b1, inodes.get(o).suf) + ".deleted");
                    }
                    links.forEach((i, name) -> guard.add(new Op(i, name)));
                }
                r.add(new Phase("R0", guard));
                r.add(new Phase("R1", mvs(news(), ".swap")));
                List<Op> cur = new ArrayList<>(), later = new ArrayList<>();
                int n = 0;
                for (long b : group) if (b != b1) {
                    if (b < newNext) { cur.addAll(mvs(olds(b), ".deleted")); continue; }
                    if (barrier && n++ > 0) { r.add(new Phase("R2." + n, cur)); cur = new ArrayList<>(); }
                    cur.addAll(mvs(olds(b, ".log"), ".deleted"));
                    later.addAll(mvs(olds(b, ".index", ".timeindex", ".txnindex"), ".deleted"));
                }
                if (!cur.isEmpty()) r.add(new Phase("R2", cur));
                r.add(new Phase("R3", mvs(news(".log"), "")));
                List<Op> fin = mvs(news(".index", ".timeindex", ".txnindex"), ""); fin.addAll(later);
                for (int o : olds(b1, ".txnindex")) fin.add(new Op(o, null)); // replaced by the rename over it (or renamed away)
                r.add(new Phase("R4", fin));
                List<Op> d = new ArrayList<>(); if (zeroTxn) d.add(new Op(zeroIdx, null)); d.addAll(snapOps());
                r.add(new Phase("R5", d));
            }
            case "SENT" -> { // one-segment groups only: the missing .index makes the loader rebuild whatever is there
                if (group.size() != 1) return r;
                r.add(new Phase("S0", mvs(olds(b1, ".index"), ".deleted")));
                List<Op> m = mvs(news(".log", ".timeindex", ".txnindex"), "");
                if (news(".txnindex").isEmpty()) m.addAll(mvs(olds(b1, ".txnindex"), ".deleted"));
                r.add(new Phase("S1", m));
                r.add(new Phase("S2", mvs(news(".index"), "")));
            }
            default -> throw new IllegalArgumentException(p);
        }
        if (p.endsWith("-inorder")) {
            List<Phase> s = new ArrayList<>();
            for (Phase ph : r) for (int i = 0; i < ph.ops.size(); i++) s.add(new Phase(ph.name + "." + i, List.of(ph.ops.get(i))));
            return s;
        }
        return r;
    }
    int zeroIdx = -1;
    final Map<Integer, String> links = new TreeMap<>();

    static final class State { String where; String[] loc; String done; }

    static List<BitSet> subsets(int n, Random rnd) {
        List<BitSet> r = new ArrayList<>();
        if (n <= 30 && (1L << n) <= CAP) {
            for (int m = 0; m < 1 << n; m++) r.add(BitSet.valueOf(new long[] {m}));
            return r;
        }
        Set<BitSet> set = new LinkedHashSet<>();
        BitSet b = new BitSet(); set.add((BitSet) b.clone());
        for (int i = 0; i < n; i++) { b.set(i); set.add((BitSet) b.clone()); BitSet one = new BitSet(); one.set(i); set.add(one); BitSet not = new BitSet(); not.set(0, n); not.clear(i); set.add(not); }
        while (set.size() < CAP) { BitSet x = new BitSet(); double p = rnd.nextDouble(); for (int i = 0; i < n; i++) if (rnd.nextDouble() < p) x.set(i); set.add(x); }
        r.addAll(set); return r;
    }

    List<State> states(String p) {
        Random rnd = new Random(42);
        List<State> r = new ArrayList<>();
        if (p.equals("V2")) { // Kafka's order, nothing synced until the end: every inode at any of its positions
            List<int[]> dims = new ArrayList<>(); List<List<String>> pos = new ArrayList<>();
            List<Integer> which = new ArrayList<>();
            for (int i : news()) { which.add(i); String f = nm(b1, inodes.get(i).suf); pos.add(List.of(f + ".cleaned", f + ".swap", f)); }
            for (long b : group) for (int i : olds(b)) { which.add(i); pos.add(List.of(inodes.get(i).name, inodes.get(i).name + ".deleted")); }
            double prod = 1; for (var x : pos) prod *= x.size();
            Set<List<Integer>> picks = new LinkedHashSet<>();
            if (prod <= CAP) {
                for (int k = 0; k < prod; k++) { int v = k; List<Integer> c = new ArrayList<>(); for (var x : pos) { c.add(v % x.size()); v /= x.size(); } picks.add(c); }
            } else while (picks.size() < CAP) { List<Integer> c = new ArrayList<>(); for (var x : pos) c.add(rnd.nextInt(x.size())); picks.add(c); }
            for (List<Integer> c : picks) {
                State s = new State(); s.where = "any"; s.loc = start(); StringBuilder done = new StringBuilder();
                for (int k = 0; k < c.size(); k++) { s.loc[which.get(k)] = pos.get(k).get(c.get(k)); if (c.get(k) > 0 ) done.append(' ').append(s.loc[which.get(k)].replaceFirst("^0{0,19}", "")); }
                s.done = done.toString(); r.add(s);
            }
            return r;
        }
        String merge = null;
        if (p.startsWith("REC~")) { merge = p.substring(4); p = "REC"; }
        List<Phase> phases = protocol(p);
        String[] at = start();
        if (merge != null) {
            String[] xy = merge.split("~");
            // the two phases share one fsync: every file at any place of its way through both
            for (int q = 0; q + 1 < phases.size(); q++) {
                boolean here = phases.get(q).name.startsWith(xy[0]) && phases.get(q + 1).name.startsWith(xy[1]);
                if (here) {
                    LinkedHashMap<Integer, List<String>> chain = new LinkedHashMap<>();
                    for (int z : new int[] {q, q + 1}) for (Op o : phases.get(z).ops) { String[] fa = at; chain.computeIfAbsent(o.inode, k -> new ArrayList<>(Collections.singletonList(fa[k]))).add(o.to); }
                    List<Integer> keys = new ArrayList<>(chain.keySet());
                    double prod = 1; for (var x : chain.values()) prod *= x.size();
                    Set<List<Integer>> picks = new LinkedHashSet<>();
                    if (prod <= CAP) for (int k = 0; k < prod; k++) { int v = k; List<Integer> c = new ArrayList<>(); for (var x : chain.values()) { c.add(v % x.size()); v /= x.size(); } picks.add(c); }
                    else while (picks.size() < CAP) { List<Integer> c = new ArrayList<>(); for (var x : chain.values()) c.add(rnd.nextInt(x.size())); picks.add(c); }
                    for (List<Integer> c : picks) {
                        State st = new State(); st.where = merge; st.loc = at.clone(); StringBuilder done = new StringBuilder();
                        for (int k = 0; k < c.size(); k++) { String to = chain.get(keys.get(k)).get(c.get(k)); st.loc[keys.get(k)] = to; if (c.get(k) > 0) done.append(' ').append(to == null ? "(unlink)" : to.replaceFirst("^0{0,19}", "")); }
                        st.done = done.toString(); r.add(st);
                    }
                }
                for (Op o : phases.get(q).ops) at[o.inode] = o.to;
            }
            return r;
        }
        Set<List<String>> seen = new HashSet<>();
        for (Phase ph : phases) {
            for (BitSet m : subsets(ph.ops.size(), rnd)) {
                String[] loc = at.clone(); StringBuilder done = new StringBuilder();
                for (int i = 0; i < ph.ops.size(); i++) if (m.get(i)) { Op o = ph.ops.get(i); loc[o.inode] = o.to; done.append(' ').append(o.to == null ? "(unlink)" : o.to.replaceFirst("^0{0,19}", "")); }
                if (!seen.add(Arrays.asList(loc))) continue;
                State s = new State(); s.where = ph.name; s.loc = loc; s.done = done.toString(); r.add(s);
            }
            for (Op o : ph.ops) at[o.inode] = o.to;
        }
        return r;
    }

    Map<String, byte[]> content(String[] loc) {
        Map<String, byte[]> m = new TreeMap<>();
        for (int i = 0; i < loc.length; i++) if (loc[i] != null && !inodes.get(i).isNew) m.put(loc[i], inodes.get(i).data);
        for (int i = 0; i < loc.length; i++) if (loc[i] != null && inodes.get(i).isNew) m.put(loc[i], inodes.get(i).data);
        return m;
    }

    View load(Path dir, Map<String, byte[]> content, Mode mode, boolean stagingDir) throws Exception {
        Files2.delete(dir.toFile());
        Path part = dir.resolve(tp.topic() + "-" + tp.partition());
        Files.createDirectories(part);
        for (var e : rootFiles.entrySet()) if (!e.getKey().startsWith(".") && !(mode == Mode.SCRATCH && e.getKey().equals(LogDir.RECOVERY_POINTS))) Files.write(dir.resolve(e.getKey()), e.getValue());
        for (var e : content.entrySet()) Files.write(part.resolve(e.getKey()), e.getValue());
        if (stagingDir) { Path s = part.resolve(".logwright"); Files.createDirectories(s.resolve("sub")); for (int i : news()) { Files.write(s.resolve(nm(b1, inodes.get(i).suf)), inodes.get(i).data); Files.write(s.resolve(nm(b1, inodes.get(i).suf) + ".swap"), inodes.get(i).data); } Files.write(s.resolve("sub/x.log"), new byte[3]); }
        View v = new View();
        LogDir ld = new LogDir(dir.toFile(), now, mode == Mode.CLEAN);
        ld.producerIdExpirationMs = exp;
        UnifiedLog log;
        try { log = ld.open(tp, config); } catch (Throwable t) { v.exc = t.toString(); v.problems.add("EXC"); ld.close(); return v; }
        try {
            v.leo = log.logEndOffset(); v.start = log.logStartOffset();
            long prev = -1; List<long[]> batches = new ArrayList<>();
            for (LogSegment seg : log.logSegments()) {
                v.segs.add(seg.baseOffset());
                ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(seg.log().file().toPath()));
                Map<Integer, Long> lastAt = new HashMap<>(); TreeMap<Long, Long> largestAt = new TreeMap<>(); int pos = 0; long largest = -1;
                int total = bytes.remaining();
                for (MutableRecordBatch b : MemoryRecords.readableRecords(bytes).batches()) {
                    b.ensureValid();
                    if (b.baseOffset() <= prev || b.baseOffset() < seg.baseOffset()) v.problems.add("OVERLAP");
                    prev = b.lastOffset();
                    batches.add(new long[] {b.baseOffset(), b.lastOffset()});
                    for (Record rec : b) v.all.put(rec.offset(), rec(rec, b));
                    largest = Math.max(largest, b.maxTimestamp()); lastAt.put(pos, b.lastOffset()); largestAt.put(b.lastOffset(), largest); pos += b.sizeInBytes();
                }
                if (pos != total) v.problems.add("TRAILING");
                boolean active = seg.baseOffset() == log.activeSegment().baseOffset();
                int zeros = 0;
                for (int i = 0; i < seg.offsetIndex().entries(); i++) {
                    OffsetPosition e = seg.offsetIndex().entry(i);
                    if (!Long.valueOf(e.offset()).equals(lastAt.get(e.position()))) { if (e.offset() == seg.baseOffset() && e.position() == 0) zeros++; else v.problems.add("OIDX-WRONG"); }
                }
                if (zeros > 0) v.problems.add("OIDX-ZEROS");
                for (int i = 0; i < seg.timeIndex().entries(); i++) {
                    TimestampOffset e = seg.timeIndex().entry(i);
                    var f = largestAt.floorEntry(e.offset());
                    if (f == null || f.getValue() != e.timestamp()) v.problems.add("TIDX-WRONG");
                }
                if (!active && largest >= 0 && seg.timeIndex().lastEntry().timestamp() != largest) v.problems.add("TIDX-MISSING");
                List<String> t = new ArrayList<>();
                for (var a : seg.txnIndex().allAbortedTxns()) t.add(a.producerId() + ":" + a.firstOffset() + "-" + a.lastOffset());
                if (!t.isEmpty()) v.txn.put(seg.baseOffset(), t);
            }
            // reads through the log
            TreeSet<Long> readOffsets = new TreeSet<>();
            long at = v.start; int guard = 0;
            while (at < v.leo && guard++ < 10000) {
                FetchDataInfo fd = log.read(at, 1 << 20, FetchIsolation.TXN_COMMITTED, true);
                List<FetchResponseData.AbortedTransaction> ab = new ArrayList<>(fd.abortedTransactions.orElse(List.of()));
                ab.sort(Comparator.comparingLong(FetchResponseData.AbortedTransaction::firstOffset));
                Set<Long> pids = new HashSet<>(); int k = 0; long next = at;
                for (RecordBatch b : fd.records.batches()) {
                    if (b.lastOffset() < at) continue;
                    boolean skip = false;
                    if (b.hasProducerId()) {
                        while (k < ab.size() && ab.get(k).firstOffset() <= b.lastOffset()) pids.add(ab.get(k++).producerId());
                        if (b.isControlBatch()) { Iterator<Record> it = b.iterator(); if (it.hasNext() && ControlRecordType.ABORT == ControlRecordType.parse(it.next().key())) pids.remove(b.producerId()); }
                        else if (b.isTransactional() && pids.contains(b.producerId())) skip = true;
                    }
                    for (Record rec : b) if (rec.offset() >= at) { readOffsets.add(rec.offset()); if (!skip && !b.isControlBatch()) v.rc.put(rec.offset(), rec(rec, b)); }
                    next = b.nextOffset();
                }
                if (next == at) break;
                at = next;
            }
            TreeSet<Long> want = new TreeSet<>(v.all.headMap(log.lastStableOffset()).keySet());
            if (!readOffsets.equals(want)) v.problems.add("READ-SEQ");
            if (!v.problems.contains("OVERLAP")) {
                int stride = Math.max(1, batches.size() / 80);
                for (int i = 0; i < batches.size(); i += stride) for (long target : new long[] {batches.get(i)[0], batches.get(i)[1]}) {
                    if (target < v.start) continue;
                    FetchDataInfo fd = log.read(target, 1, FetchIsolation.LOG_END, true);
                    Iterator<? extends RecordBatch> it = fd.records.batches().iterator();
                    RecordBatch first = null;
                    try { if (it.hasNext()) first = it.next(); } catch (RuntimeException e) { first = null; }
                    if (first == null || first.lastOffset() < target || first.baseOffset() != batches.get(i)[0]) { v.problems.add("READ-AT"); break; }
                }
            }
            StringBuilder ps = new StringBuilder();
            new TreeMap<>(log.producerStateManager().activeProducers()).forEach((id, e) -> ps.append(id).append(':').append(e.producerEpoch()).append('/').append(e.batchMetadata().stream().reduce((a, b) -> b).map(b -> b.lastSeq()).orElse(-1)).append('/').append(e.lastDataOffset()).append('/').append(e.currentTxnFirstOffset()).append(' '));
            v.producers = ps.toString();
            if (stagingDir && !Files.exists(part.resolve(".logwright/sub/x.log"))) v.notes.add("STAGING-GONE");
            for (File f : part.toFile().listFiles()) { String n = f.getName(); if (n.endsWith(".swap") || n.endsWith(".cleaned")) v.problems.add("LEFTOVER"); }
        } catch (Throwable t) { v.exc = t.toString(); v.problems.add("READ-EXC"); }
        finally { try { ld.close(); } catch (Throwable t) { v.problems.add("CLOSE-EXC"); } }
        return v;
    }

    static Rec rec(Record r, RecordBatch b) {
        String key = null;
        if (!b.isControlBatch() && r.hasKey()) { byte[] k = new byte[r.keySize()]; r.key().duplicate().get(k); key = Base64.getEncoder().encodeToString(k); }
        int h = Objects.hash(r.offset(), key, r.hasValue() ? r.value().duplicate().hashCode() : -7, r.timestamp(), b.producerId(), r.sequence());
        return new Rec(r.offset(), key, !r.hasValue(), b.isControlBatch(), h);
    }

    static Map<String, Rec> latest(TreeMap<Long, Rec> m) { Map<String, Rec> r = new HashMap<>(); for (Rec x : m.values()) if (x.key != null && !x.control) r.put(x.key, x); return r; }

    TreeSet<String> judge(View v, Mode mode) {
        TreeSet<String> p = new TreeSet<>(v.problems);
        if (v.exc != null) return p;
        View o = refOld.get(mode), n = refNew.get(mode);
        if (v.leo != o.leo) p.add("LEO"); if (v.start != o.start) p.add("START");
        for (Rec r : n.all.values()) { Rec x = v.all.get(r.offset); if (x == null || x.hash != r.hash) { p.add("LOST-NEW"); break; } }
        for (Rec r : v.all.values()) { Rec a = o.all.get(r.offset), b = n.all.get(r.offset); if (!(a != null && a.hash == r.hash) && !(b != null && b.hash == r.hash)) { p.add("FOREIGN"); break; } }
        for (Rec r : n.rc.values()) if (!v.rc.containsKey(r.offset)) { p.add("RC-MISSING"); break; }
        for (Rec r : v.rc.values()) if (!o.rc.containsKey(r.offset) && !n.rc.containsKey(r.offset)) { p.add("RC-ABORTED-SHOWN"); break; }
        Map<String, Rec> lo = latest(o.rc), lv = latest(v.rc);
        for (var e : lo.entrySet()) {
            Rec a = e.getValue(), b = lv.get(e.getKey());
            if (!a.tomb && (b == null || b.offset != a.offset)) p.add(b == null ? "KEY-LOST" : b.offset < a.offset ? "KEY-STALE" : "KEY-NEWER");
            if (a.tomb && b != null && b.offset != a.offset) p.add(b.tomb ? "TOMB-OLDER" : "RESURRECT");
        }
        if (mode != Mode.SCRATCH) {
            for (long s : v.segs) {
                List<String> t = v.txn.getOrDefault(s, List.of());
                List<String> to = o.txn.getOrDefault(s, List.of()), tn = n.txn.getOrDefault(s, List.of());
                if (!t.equals(to) && !t.equals(tn)) p.add("TXNIDX");
            }
            List<String> t = v.txn.getOrDefault(b1, List.of());
            // old aborted list in front of the new content, or the other way round
            boolean newContent = b1Is(v, n), oldContent = b1Is(v, o);
            if (newContent && !oldContent && !t.equals(n.txn.getOrDefault(b1, List.of()))) p.add("TXNIDX-STALE");
            if (oldContent && !newContent && !t.equals(o.txn.getOrDefault(b1, List.of()))) p.add("TXNIDX-LOST");
        }
        if (!v.producers.equals(o.producers) && !v.producers.equals(n.producers)) { p.add("PROD"); if (Boolean.getBoolean("pd")) System.out.println("    PD " + mode + " got{" + v.producers + "} old{" + o.producers + "} new{" + n.producers + "}"); }
        return p;
    }
    boolean b1Is(View v, View ref) {
        int i = v.segs.indexOf(b1); if (i < 0) return false;
        long hi = i + 1 < v.segs.size() ? v.segs.get(i + 1) : Long.MAX_VALUE;
        return v.all.subMap(b1, hi).keySet().equals(ref.all.subMap(b1, hi).keySet());
    }

    public static void main(String[] argv) throws Exception {
        List<String> wantLayouts = List.of(argv[0].split(","));
        List<String> variants = List.of(argv[1].split(","));
        boolean staging = argv.length > 2 && argv[2].equals("staging");
        int threads = 2;
        List<SwapCheck> layouts = new ArrayList<>();
        File cases = new File(System.getProperty("cases", "cases"));
        for (File c : Arrays.stream(cases.listFiles(File::isDirectory)).sorted().toList()) {
            JsonNode all = Json.read(new File(c, "case.json"));
            if (!all.has("ops") && !all.has("partitions")) continue;
            if (all.has("ops") && !all.get("ops").toString().equals("[\"clean\"]")) continue;
            for (JsonNode one : all.has("partitions") ? all.get("partitions") : Json.MAPPER.createArrayNode().add(all)) {
                String d = one.get("topic").asText() + "-" + one.get("partition").asInt();
                List<Long> ob = bases(new File(c, "before/" + d)), nb = bases(new File(c, "after/" + d));
                for (int i = 0; i < nb.size(); i++) {
                    long lo = nb.get(i), hi = i + 1 < nb.size() ? nb.get(i + 1) : Long.MAX_VALUE;
                    List<Long> g = ob.stream().filter(x -> x >= lo && x < hi).toList();
                    String id = c.getName() + "@" + lo, id2 = c.getName() + "/" + d + "@" + lo;
                    if (wantLayouts.contains(id) || wantLayouts.contains(id2) || wantLayouts.contains("list") || wantLayouts.contains("all")) layouts.add(new SwapCheck(c, one, all, lo, g, ob, nb));
                }
            }
        }
        if (wantLayouts.contains("list")) { for (SwapCheck l : layouts) System.out.println(l.label + " old=" + l.group + " newNext=" + l.newNext); return; }
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        ThreadLocal<Path> dirs = new ThreadLocal<>();
        java.util.concurrent.atomic.AtomicInteger ids = new java.util.concurrent.atomic.AtomicInteger();
        for (SwapCheck l : layouts) {
            System.out.println("### " + l.label + " group=" + l.group + " newNext=" + l.newNext);
            Path refDir = WORK.resolve("ref" + ProcessHandle.current().pid());
            String[] fin = l.start();
            for (int i = 0; i < l.inodes.size(); i++) { Inode x = l.inodes.get(i); if (x.isNew) fin[i] = nm(x.base, x.suf); else if (x.suf != null && l.group.contains(x.base)) fin[i] = null; }
            for (Mode m : Mode.values()) {
                l.refOld.put(m, l.load(refDir, l.content(l.start()), m, false)); l.refNew.put(m, l.load(refDir, l.content(fin), m, false));
            }
            for (Mode m : Mode.values()) System.out.println("  ref " + m + " old " + l.refOld.get(m).problems + l.refOld.get(m).exc + " new judged " + l.judge(l.refNew.get(m), m)
                    + (l.refOld.get(m).producers.equals(l.refNew.get(m).producers) ? "" : " PRODUCERS old{" + l.refOld.get(m).producers + "} new{" + l.refNew.get(m).producers + "}"));
            if (!l.refNew.get(Mode.CLEAN).producers.equals(l.refNew.get(Mode.SCRATCH).producers)) System.out.println("  note: producers of the final state: clean {" + l.refNew.get(Mode.CLEAN).producers + "} rebuilt {" + l.refNew.get(Mode.SCRATCH).producers + "}");
            Files2.delete(refDir.toFile());
            for (String var : variants) {
                long t0 = System.currentTimeMillis();
                List<State> states = l.states(var);
                Map<Mode, TreeMap<String, int[]>> hist = new EnumMap<>(Mode.class);
                Map<String, String> example = new TreeMap<>();
                Map<Mode, Integer> bad = new EnumMap<>(Mode.class);
                int[] anyBad = {0}, cleanDiff = {0};
                Map<String, int[]> perPhase = new LinkedHashMap<>();
                List<Future<?>> fs = new ArrayList<>();
                for (State s : states) fs.add(pool.submit(() -> {
                    Path dir = dirs.get(); if (dir == null) { dir = WORK.resolve("w" + ProcessHandle.current().pid() + "-" + ids.getAndIncrement()); dirs.set(dir); }
                    Map<Mode, TreeSet<String>> res = new EnumMap<>(Mode.class); Map<Mode, View> vs = new EnumMap<>(Mode.class);
                    for (Mode m : Mode.values()) { View v = l.load(dir, l.content(s.loc), m, staging); TreeSet<String> p = l.judge(v, m); p.addAll(v.notes); res.put(m, p); vs.put(m, v); }
                    synchronized (hist) {
                        boolean any = false;
                        int[] pp = perPhase.computeIfAbsent(s.where, k -> new int[2]); pp[0]++;
                        for (Mode m : Mode.values()) {
                            if (!res.get(m).isEmpty()) {
                                any = true; bad.merge(m, 1, Integer::sum);
                                for (String q : res.get(m)) {
                                    hist.computeIfAbsent(m, k -> new TreeMap<>()).computeIfAbsent(q, k -> new int[1])[0]++;
                                    String ex = s.where + ":" + s.done + (vs.get(m).exc != null ? " !" + vs.get(m).exc : "");
                                    String key = q + " (" + m + ")"; String have = example.get(key);
                                    if (have == null || ex.length() < have.length() || ex.length() == have.length() && ex.compareTo(have) < 0) example.put(key, ex);
                                }
                            }
                        }
                        if (any) { anyBad[0]++; pp[1]++; }
                        if (!res.get(Mode.CLEAN).equals(res.get(Mode.UNCLEAN)) || !vs.get(Mode.CLEAN).all.keySet().equals(vs.get(Mode.UNCLEAN).all.keySet()) || !vs.get(Mode.CLEAN).segs.equals(vs.get(Mode.UNCLEAN).segs)) cleanDiff[0]++;
                    }
                    return null;
                }));
                for (Future<?> f : fs) f.get();
                StringBuilder ph = new StringBuilder(); if (!var.endsWith("-inorder")) perPhase.forEach((k, x) -> ph.append(k).append('=').append(x[1]).append('/').append(x[0]).append(' '));
                System.out.printf("  %-14s states %d bad %d (clean %d, unclean %d, scratch %d) clean≠unclean %d [%s] %dms%n", var, states.size(), anyBad[0], bad.getOrDefault(Mode.CLEAN, 0), bad.getOrDefault(Mode.UNCLEAN, 0), bad.getOrDefault(Mode.SCRATCH, 0), cleanDiff[0], ph.toString().trim(), System.currentTimeMillis() - t0);
                for (var e : hist.entrySet()) { StringBuilder sb = new StringBuilder(); e.getValue().forEach((k, x) -> sb.append(k).append('=').append(x[0]).append(' ')); System.out.println("      " + e.getKey() + ": " + sb); }
                if (!Boolean.getBoolean("noex")) example.forEach((k, x) -> System.out.println("      ex " + k + " <- " + (x.length() > 400 ? x.substring(0, 400) + "..." : x)));
                System.out.flush();
            }
        }
        pool.shutdown();
    }
    static List<Long> bases(File d) { return Arrays.stream(d.listFiles()).map(File::getName).filter(n -> n.endsWith(".log")).map(n -> Long.parseLong(n.substring(0, 20))).sorted().toList(); }
}
