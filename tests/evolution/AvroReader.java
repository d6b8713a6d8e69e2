import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.io.JsonEncoder;

/**
 * Reads data by Avro's own schema resolution. Each line of the input has the writer's schema, the
 * reader's and a datum, each in base64; each line of the output has the datum in Avro's JSON encoding,
 * or "!" and the class of what was thrown.
 */
public final class AvroReader {
    private AvroReader() {}

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] parts = line.split(" ", -1);
            try {
                out.println(read(text(parts[0]), text(parts[1]), Base64.getDecoder().decode(parts[2])));
            } catch (Exception error) {
                out.println("!" + error.getClass().getSimpleName());
            }
        }
    }

    private static String text(String encoded) {
        return new String(Base64.getDecoder().decode(encoded), StandardCharsets.UTF_8);
    }

    private static String read(String writer, String reader, byte[] content) throws Exception {
        Schema ofWriter = new Schema.Parser().parse(writer);
        Schema ofReader = new Schema.Parser().parse(reader);
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(content, null);
        Object datum = new GenericDatumReader<Object>(ofWriter, ofReader).read(null, decoder);
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        JsonEncoder encoder = EncoderFactory.get().jsonEncoder(ofReader, bytes);
        new GenericDatumWriter<Object>(ofReader).write(datum, encoder);
        encoder.flush();
        return bytes.toString(StandardCharsets.UTF_8);
    }
}
