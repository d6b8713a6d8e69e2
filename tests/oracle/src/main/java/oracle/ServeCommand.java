package oracle;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Set;

/** Answers requests, one JSON object on a line each, until told to quit: a JVM that stays is a JVM that is warm. */
final class ServeCommand {
    private ServeCommand() {
    }

    static int run(List<String> argv) throws Exception {
        new Args(argv, Set.of());
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        String line;
        while ((line = in.readLine()) != null) {
            JsonNode request = Json.MAPPER.readTree(line);
            if (request.path("request").asText().equals("quit")) {
                return 0;
            }
            System.out.println(Json.line(answer(request)));
            System.out.flush();
        }
        return 0;
    }

    private static ObjectNode answer(JsonNode request) {
        try {
            return switch (request.path("request").asText()) {
                case "random" -> RandomCase.run(request);
                case "plan" -> RandomPlans.run(request);
                case "recover" -> RecoverRequest.run(request);
                case "clean" -> CleanRequest.run(request);
                case "manager" -> ManagerRequest.run(request);
                case "boot" -> BootRequest.run(request);
                case "retain" -> RandomRetentions.run(request);
                case "append" -> AppendRequest.run(request);
                case "directory" -> DirectoryRequest.run(request);
                case "lookup" -> LookupRequest.run(request);
                case "partitions" -> AppendRequest.partitions(request);
                case "metadata" -> RandomMetadata.run(request);
                case "configs" -> ConfigsRequest.run(request);
                case "internal" -> InternalRecords.run(request);
                default -> throw new Args.UsageException("no such request: " + request.path("request").asText());
            };
        } catch (RandomCase.CleanerFailed e) {
            return Json.object().put("cleanerFailed", e.getMessage());
        } catch (Throwable e) {
            StringWriter trace = new StringWriter();
            e.printStackTrace(new PrintWriter(trace));
            return Json.object().put("error", trace.toString());
        }
    }
}
