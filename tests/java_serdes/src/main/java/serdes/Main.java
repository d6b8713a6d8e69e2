package serdes;

import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.protobuf.DescriptorProtos.DescriptorProto;
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto;
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto.Label;
import com.google.protobuf.DescriptorProtos.FieldDescriptorProto.Type;
import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaSerializer;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.serialization.Serializer;

/** Prints what was registered and serialized, as one JSON object. */
public final class Main {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final int ROWS = 16;
    private static final Registry REGISTRY = new Registry();

    private Main() {}

    public static void main(String[] arguments) throws Exception {
        ObjectNode result = JSON.createObjectNode();
        result.set("avro", avro());
        result.set("json", json());
        result.set("protobuf", protobuf());
        result.set("schemas", REGISTRY.registered());
        System.out.println(JSON.writeValueAsString(result));
    }

    private static ArrayNode avro() {
        ArrayNode records = JSON.createArrayNode();
        AvroRecords drawn = new AvroRecords(7);
        try (Serializer<Object> serializer = configured(
                new AvroKafkaSerializer<>(REGISTRY.client()), Map.of())) {
            for (int number = 0; number < ROWS; number++) {
                ObjectNode row = JSON.createObjectNode();
                add(records, row, serializer.serialize("orders", drawn.next(row)));
            }
        }
        return records;
    }

    private static ArrayNode json() {
        ArrayNode records = JSON.createArrayNode();
        Map<String, Object> settings = Map.of("apicurio.registry.artifact.schema.location", "person.json");
        try (Serializer<Object> serializer = configured(
                new JsonSchemaKafkaSerializer<>(REGISTRY.client(), false), settings)) {
            ObjectNode first = JSON.createObjectNode().put("name", "é").put("age", 1L << 40);
            first.put("score", 0.1).putArray("tags").add("a").add("");
            ObjectNode second = JSON.createObjectNode().put("name", "");
            for (ObjectNode row : new ObjectNode[] {first, second}) {
                add(records, row, serializer.serialize("people", row));
            }
        }
        return records;
    }

    private static ArrayNode protobuf() throws Exception {
        ArrayNode records = JSON.createArrayNode();
        FieldDescriptorProto number = FieldDescriptorProto.newBuilder().setName("n").setNumber(1)
            .setLabel(Label.LABEL_OPTIONAL).setType(Type.TYPE_INT32).build();
        DescriptorProto inner = DescriptorProto.newBuilder().setName("Line").addField(number).build();
        FileDescriptorProto file = FileDescriptorProto.newBuilder().setName("order.proto")
            .setSyntax("proto3").setPackage("shop")
            .addMessageType(DescriptorProto.newBuilder().setName("Order").addField(number)
                .addNestedType(inner))
            .addMessageType(inner)
            .build();
        FileDescriptor built = FileDescriptor.buildFrom(file, new FileDescriptor[0]);
        Map<String, Object> settings = Map.of("apicurio.registry.serde.validation-enabled", false);
        for (Descriptor type : built.getMessageTypes()) {
            try (Serializer<DynamicMessage> serializer = configured(
                    new ProtobufKafkaSerializer<>(REGISTRY.client()), settings)) {
                DynamicMessage message = DynamicMessage.newBuilder(type)
                    .setField(type.findFieldByNumber(1), 300).build();
                ObjectNode row = JSON.createObjectNode().put("n", 300);
                add(records, row, serializer.serialize("lines", message));
            }
        }
        return records;
    }

    private static <T> Serializer<T> configured(Serializer<T> serializer, Map<String, Object> more) {
        Map<String, Object> settings = new HashMap<>(more);
        settings.put("apicurio.registry.headers.enabled", false);
        settings.put("apicurio.registry.auto-register", true);
        settings.put("apicurio.registry.as-confluent", true);
        settings.put("apicurio.registry.use-id", "contentId");
        serializer.configure(settings, false);
        return serializer;
    }

    private static void add(ArrayNode records, ObjectNode row, byte[] content) {
        records.addObject().put("value", Base64.getEncoder().encodeToString(content)).set("row", row);
    }
}
