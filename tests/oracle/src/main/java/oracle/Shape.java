package oracle;

import com.fasterxml.jackson.databind.JsonNode;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;

/**
 * What one random log has in it. All of it follows from the seed, each decision from a stream of its own, so that a
 * request that takes something away leaves the rest as it was: that is what makes a failing log shrink.
 *
 * <p>Limits of a request: {@code "FEATURE": false} never, {@code true} always, else by chance; {@code "codecs"} those
 * that may be used; {@code "NUMBER": n} or {@code [low, high]} in place of the range of a number; {@code "skip"} the
 * numbers of operations that are left out.
 */
final class Shape {
    final long seed;
    private final JsonNode limits;
    private final Set<Integer> skipped = new HashSet<>();

    Shape(long seed, JsonNode limits) {
        this.seed = seed;
        this.limits = limits;
        limits.path("skip").forEach(number -> skipped.add(number.asInt()));
    }

    /** The same limits for another log of the same request. */
    Shape another(int number) {
        return new Shape(seed * 31 + number + 1, limits);
    }

    SplittableRandom stream(String name) {
        return new SplittableRandom(seed * 1_000_003 + name.hashCode());
    }

    boolean has(String feature, double probability) {
        boolean drawn = stream("has " + feature).nextDouble() < probability;
        JsonNode limit = limits.path(feature);
        return limit.isBoolean() ? limit.asBoolean() : drawn;
    }

    /** Whether single operations may use the feature at all. */
    boolean may(String feature) {
        return limits.path(feature).asBoolean(true);
    }

    int number(String name, int low, int high) {
        JsonNode limit = limits.path(name);
        int from = limit.isArray() ? limit.get(0).asInt() : limit.asInt(low);
        int to = limit.isArray() ? limit.get(1).asInt() : limit.asInt(high);
        return from + stream("number " + name).nextInt(to - from + 1);
    }

    /** A number from 0 on, which the request may only lower. */
    int upTo(String name, int most) {
        return Math.min(limits.path(name).asInt(most), stream("up to " + name).nextInt(most + 1));
    }

    long one(String name, long... choices) {
        JsonNode limit = limits.path(name);
        return limit.isNumber() ? limit.asLong() : choices[stream("one " + name).nextInt(choices.length)];
    }

    boolean skips(int operation) {
        return skipped.contains(operation);
    }

    /** One codec in most logs, several in some. */
    List<String> codecs() {
        List<String> allowed = new ArrayList<>();
        limits.path("codecs").forEach(name -> allowed.add(name.asText()));
        if (allowed.isEmpty()) {
            allowed.addAll(List.of("none", "gzip", "snappy", "lz4", "zstd"));
        }
        SplittableRandom random = stream("codecs");
        int first = random.nextInt(allowed.size());
        return switch (random.nextInt(4)) {
            case 0 -> allowed;
            case 1 -> allowed.contains("none") ? List.of("none") : allowed;
            case 2 -> allowed.contains("none") ? List.of("none", allowed.get(first)) : List.of(allowed.get(first));
            default -> List.of(allowed.get(first));
        };
    }
}
