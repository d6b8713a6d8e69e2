package classes;

import org.objectweb.asm.AnnotationVisitor;
import org.objectweb.asm.Attribute;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;
import org.objectweb.asm.TypePath;
import org.objectweb.asm.util.Textifier;
import org.objectweb.asm.util.TraceMethodVisitor;

import java.io.IOException;
import java.io.InputStream;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.List;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;

/**
 * Prints one line for each member of Kafka's classes: class, member and digest, with tabs between. A digest is of the
 * disassembled code, without line numbers, names of local variables, frames and annotations: a compilation of the same
 * source has the same one. The member of a class itself is "class"; a message definition in a jar has one, "json".
 *
 * Arguments: jars.
 */
public final class Digests {
    private Digests() {
    }

    public static void main(String[] jars) throws IOException {
        PrintWriter out = new PrintWriter(System.out, false, StandardCharsets.UTF_8);
        for (String path : jars) {
            try (JarFile jar = new JarFile(path)) {
                List<JarEntry> entries = jar.stream().filter(e -> !e.isDirectory()).toList();
                for (JarEntry entry : entries) {
                    print(jar, entry, out);
                }
            }
        }
        out.flush();
    }

    private static void print(JarFile jar, JarEntry entry, PrintWriter out) throws IOException {
        String name = entry.getName();
        boolean isKafka = name.startsWith("org/apache/kafka/") || name.startsWith("kafka/");
        try (InputStream in = jar.getInputStream(entry)) {
            if (isKafka && name.endsWith(".class")) {
                new ClassReader(in).accept(new Members(out), ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES);
            } else if (name.endsWith(".json")) {
                String text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
                out.println(name.replace('/', '.') + "\tjson\t" + digest(text.replaceAll("\\s+", "")));
            }
        }
    }

    static String digest(String text) {
        try {
            byte[] all = MessageDigest.getInstance("SHA-256").digest(text.getBytes(StandardCharsets.UTF_8));
            return HexFormat.of().formatHex(all, 0, 8);
        } catch (NoSuchAlgorithmException e) {
            throw new IllegalStateException(e);
        }
    }

    private static final class Members extends ClassVisitor {
        private final PrintWriter out;
        private String name;

        Members(PrintWriter out) {
            super(Opcodes.ASM9);
            this.out = out;
        }

        private void line(String member, String text) {
            out.println(name + "\t" + member + "\t" + digest(text));
        }

        @Override
        public void visit(int version, int access, String name, String signature, String parent, String[] interfaces) {
            this.name = name.replace('/', '.');
            line("class", access + " " + parent + " " + Arrays.toString(interfaces));
        }

        @Override
        public FieldVisitor visitField(int access, String field, String type, String signature, Object value) {
            line(field + " " + type, access + " " + value);
            return null;
        }

        @Override
        public MethodVisitor visitMethod(int access, String method, String type, String signature, String[] thrown) {
            Textifier text = new Textifier();
            return new Code(text, () -> {
                StringWriter code = new StringWriter();
                text.print(new PrintWriter(code, true));
                line(method + type, access + " " + Arrays.toString(thrown) + "\n" + code);
            });
        }

        @Override
        public AnnotationVisitor visitAnnotation(String type, boolean visible) {
            return null;
        }

        @Override
        public AnnotationVisitor visitTypeAnnotation(int ref, TypePath path, String type, boolean visible) {
            return null;
        }

        @Override
        public void visitAttribute(Attribute attribute) {
            // such as Scala's marks: not code
        }
    }

    private static final class Code extends MethodVisitor {
        private final Runnable end;

        Code(Textifier text, Runnable end) {
            super(Opcodes.ASM9, new TraceMethodVisitor(text));
            this.end = end;
        }

        @Override
        public AnnotationVisitor visitAnnotation(String type, boolean visible) {
            return null;
        }

        @Override
        public AnnotationVisitor visitParameterAnnotation(int parameter, String type, boolean visible) {
            return null;
        }

        @Override
        public void visitEnd() {
            super.visitEnd();
            end.run();
        }
    }
}
