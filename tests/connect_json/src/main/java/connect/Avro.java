package connect;

import io.apicurio.registry.serde.avro.NonRecordContainer;
import io.apicurio.registry.utils.converter.avro.AvroData;
import io.apicurio.registry.utils.converter.avro.AvroDataConfig;
import org.apache.avro.AvroRuntimeException;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.EncoderFactory;
import org.apache.kafka.connect.data.Schema;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Connect's values as Avro with ids, as Confluent's format has them. AvroData is Apicurio's copy of Confluent's. */
final class Avro {
    private final AvroData data = new AvroData(new AvroDataConfig(java.util.Map.of()));
    private final List<String> schemas = new ArrayList<>();

    /** The texts that were written with; the first has the id 1. */
    List<String> schemas() {
        return schemas;
    }

    /**
     * Writes a value. A schema whose text is another schema cannot be registered: one with two different maps whose keys
     * are not texts, since their entries have the same name, or with a default that JSON does not have.
     */
    byte[] write(Schema schema, Object value) throws IOException {
        if (value == null) {
            return null;
        }
        org.apache.avro.Schema type = data.fromConnectSchema(schema);
        Object datum = data.fromConnectData(schema, value);
        Object plain = datum instanceof NonRecordContainer contained ? contained.getValue() : datum;
        String text = type.toString();
        if (!new org.apache.avro.Schema.Parser().parse(text).equals(type)) {
            throw new AvroRuntimeException("two types have the same name");
        }
        if (!schemas.contains(text)) {
            schemas.add(text);
        }
        ByteArrayOutputStream content = new ByteArrayOutputStream();
        DataOutputStream head = new DataOutputStream(content);
        head.writeByte(0);
        head.writeInt(schemas.indexOf(text) + 1);
        BinaryEncoder encoder = EncoderFactory.get().directBinaryEncoder(content, null);
        new GenericDatumWriter<>(type).write(plain, encoder);
        encoder.flush();
        return content.toByteArray();
    }
}
