package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.errors.UnsupportedVersionException;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Base64;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.SortedMap;
import java.util.TreeMap;

/**
 * Random records of the internal topics, of every type and version that Kafka has, serialized by Kafka's own messages,
 * each with what its JSON converters make of it.
 */
final class InternalRecords {
    /** The coordinators, and their topics. */
    private static final SortedMap<String, String> TOPICS = new TreeMap<>(Map.of("group", "__consumer_offsets",
            "transaction", "__transaction_state", "share", "__share_group_state"));
    private static final int ATTEMPTS = 1000;
    private static final String[] TEXTS = {"", "a", "group-1", "größe€", "x".repeat(200)};

    private final Random random;
    /** The share of values that are null; none are, once a message did not take one. */
    private double nulls;
    /** The share of fields that keep their default. */
    private double unset;

    private InternalRecords(long seed) {
        random = new Random(seed);
    }

    /** {@code seed}, {@code count}: records of each type and version. */
    static ObjectNode run(JsonNode request) throws Exception {
        InternalRecords records = new InternalRecords(request.path("seed").asLong());
        ObjectNode answer = Json.object();
        ArrayNode lines = answer.putArray("records");
        for (String kind : TOPICS.keySet()) {
            String generated = "org.apache.kafka.coordinator." + kind + ".generated.";
            Class<?> types = Class.forName(generated + "CoordinatorRecordType");
            Class<?> converters = Class.forName(generated + "CoordinatorRecordJsonConverters");
            for (Object type : types.getEnumConstants()) {
                records.ofType(type, converters, request.path("count").asInt(), lines, kind);
            }
        }
        return answer;
    }

    private void ofType(Object type, Class<?> converters, int count, ArrayNode lines, String kind) throws Exception {
        short lowest = (short) call(type, "lowestSupportedVersion");
        short highest = (short) call(type, "highestSupportedVersion");
        Method keyJson = converters.getMethod("writeRecordKeyAsJson", ApiMessage.class);
        Method valueJson = converters.getMethod("writeRecordValueAsJson", ApiMessage.class, short.class);
        for (short version = lowest; version <= highest; version++) {
            for (int number = 0; number < count; number++) {
                short id = (short) call(type, "id");
                Made key = made(type, "newRecordKey", id, (short) 0);
                Made value = made(type, "newRecordValue", version, version);
                ObjectNode line = lines.addObject();
                line.put("topic", TOPICS.get(kind));
                line.put("name", type.toString()).put("type", id).put("version", version);
                line.put("key", key.bytes).put("value", value.bytes);
                line.set("keyData", (JsonNode) keyJson.invoke(null, key.message));
                line.set("valueData", (JsonNode) valueJson.invoke(null, value.message, version));
            }
        }
    }

    private record Made(ApiMessage message, String bytes) {
    }

    /** A message that its version takes: random ones have null, or fields that are not in the version. */
    private Made made(Object type, String method, short prefix, short version) throws Exception {
        nulls = 0.3;
        RuntimeException last = null;
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            unset = random.nextDouble();
            ApiMessage message = (ApiMessage) call(type, method);
            fill(message);
            try {
                ObjectSerializationCache cache = new ObjectSerializationCache();
                ByteBuffer buffer = ByteBuffer.allocate(Short.BYTES + message.size(cache, version));
                buffer.putShort(prefix);
                message.write(new ByteBufferAccessor(buffer), cache, version);
                return new Made(message, Base64.getEncoder().encodeToString(buffer.array()));
            } catch (NullPointerException | UnsupportedVersionException e) {
                last = e;
                nulls = e instanceof NullPointerException ? nulls / 2 : nulls;
            }
        }
        throw new IllegalStateException("no random message is taken: " + type + " " + version, last);
    }

    private void fill(Object message) throws Exception {
        Method[] methods = message.getClass().getMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName));
        for (Method method : methods) {
            if (!method.getName().startsWith("set") || method.getParameterCount() != 1 || random.nextDouble() < unset) {
                continue;
            }
            Object value = value(method.getGenericParameterTypes()[0]);
            try {
                method.invoke(message, value);
            } catch (InvocationTargetException e) {
                method.invoke(message, (int) value & 0xFFFF);
            }
        }
    }

    private Object value(Type type) throws Exception {
        if (type == byte.class) {
            return (byte) random.nextInt();
        } else if (type == short.class) {
            return (short) random.nextInt();
        } else if (type == int.class) {
            return random.nextInt() >> random.nextInt(32);
        } else if (type == long.class) {
            return random.nextLong() >> random.nextInt(64);
        } else if (type == Uuid.class) {
            return new Uuid(random.nextLong(), random.nextLong());
        } else if (random.nextDouble() < nulls) {
            return null;
        } else if (type == String.class) {
            return TEXTS[random.nextInt(TEXTS.length)];
        } else if (type == byte[].class) {
            byte[] bytes = new byte[random.nextInt(20)];
            random.nextBytes(bytes);
            return bytes;
        } else if (type instanceof ParameterizedType list) {
            List<Object> items = new ArrayList<>();
            for (int left = random.nextInt(4); left > 0; left--) {
                items.add(item(list.getActualTypeArguments()[0]));
            }
            return items;
        }
        Object message = ((Class<?>) type).getConstructor().newInstance();
        fill(message);
        return message;
    }

    private Object item(Type type) throws Exception {
        if (type == Integer.class) {
            return value(int.class);
        }
        if (type == Short.class) {
            return value(short.class);
        }
        Object item = value(type);
        return item == null ? item(type) : item;
    }

    private static Object call(Object target, String method) throws Exception {
        return target.getClass().getMethod(method).invoke(target);
    }
}
